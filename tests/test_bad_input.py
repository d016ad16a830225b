"""Drawn wrong settings and odd clients: one clear line, or they run."""

import dataclasses
import json
import pathlib
import typing
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_runs import SMALL, digits, read_rows

from fedsvp_jax import run
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core.files import plain
from fedsvp_jax.data import sources
from fedsvp_jax.federation import build, loading, plan
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer

REFUSED = (ValueError, OSError)
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))
NUMBERS: dict[type, tuple[Any, ...]] = {
    int: (-1, 0, 1, 2, 3, 7, 40, 2**31 - 1, 2**31, 2**32, 2**63, 2**70),
    float: (-1.0, -0.0, 0.0, 1e-300, 1e-9, 0.3, 1.0, 7.5, 1e39, *NOT_FINITE),
    bool: (False, True),
    str: ("", "?", "column:sex", "column:", "tfds:", "mnist", "ε" * 9),
}
# Large and right, and so refused by no one: they only take long.
TOO_LONG = {"num_clients": 300, "cohort_size": 300, "num_attributes": 6}


def values(field: dataclasses.Field) -> list[Any]:
    """Wrong and right values of a setting."""
    hint = typing.get_type_hints(ExperimentConfig)[field.name]
    kind = next((k for k in NUMBERS if k in (hint, *typing.get_args(hint))), str)
    found = [*(field.metadata["choices"] or ()), *NUMBERS[kind]]
    most = TOO_LONG.get(field.name)
    return [v for v in found if most is None or v <= most]


FIELDS = [f for f in dataclasses.fields(ExperimentConfig) if f.name != "data_dir"]
CHANGES = st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4).flatmap(
    lambda fields: st.fixed_dictionaries(
        {field.name: st.sampled_from(values(field)) for field in fields}
    )
)


def in_one_line(error: BaseException) -> bool:
    message = str(error)
    return bool(message.strip()) and "\n" not in message


def accepted(changes: dict[str, Any]) -> bool:
    """Whether a run with these settings would start; else it was refused rightly."""
    try:
        config = resolve(dataclasses.replace(SMALL, **changes))
        dataset = digits()
        if config.dataset != "digits" or config.model != "mlp":
            dataset = loading.load_dataset(config)
        Trainer(build([config], dataset), placement=Placement(rounds_per_call=1))
    except REFUSED as error:
        assert in_one_line(error), (changes, error)
        return False
    json.dumps(plain(plan.recorded_settings(config, dataset)), allow_nan=False)
    return True


@pytest.mark.parametrize("number", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_drawn_settings_are_refused_in_one_line_or_would_run(number: int) -> None:
    found: list[bool] = []
    named = {"deadline": None, "suppress_health_check": list(HealthCheck)}

    @settings(max_examples=number, derandomize=True, database=None, **named)
    @given(CHANGES)
    def check(changes: dict[str, Any]) -> None:
        found.append(accepted(changes))

    check()
    assert found.count(False) > number / 4 and any(found)


MIXED = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]


def odd(folder: pathlib.Path, labels: list[list[int]], **more: Any) -> ExperimentConfig:
    """A run on small images, of which writer k, with the k-th labels, is client k."""
    rng = np.random.default_rng(0)
    flat = np.concatenate([np.asarray(held, int) for held in labels])
    path, size = folder / "odd.npz", len(labels)
    np.savez(
        path,
        x_train=rng.integers(0, 256, (len(flat), 4, 4), dtype=np.uint8),
        y_train=flat,
        x_test=rng.integers(0, 256, (6, 4, 4), dtype=np.uint8),
        y_test=np.arange(6) % (flat.max() + 1),
        writer_train=np.repeat(np.arange(size), [len(held) for held in labels]),
    )
    changes = {"dataset": "npz", "data_dir": str(path), "partition": "by_writer"}
    changes |= {"num_clients": size, "cohort_size": 2, "num_hbc_clients": 0}
    changes |= {"num_rounds": 1, "private_attribute": 0, "batch_size": 4}
    return resolve(dataclasses.replace(SMALL, **(changes | more)))


def test_clients_with_no_private_or_only_private_data_take_part(
    tmp_path: pathlib.Path,
) -> None:
    """The private attribute adds nothing, or is all that there is to be learned."""
    labels = [MIXED, [1, 2] * 5, [0] * 10]
    run.train(odd(tmp_path, labels, cohort_size=3), tmp_path / "run")
    rows = read_rows(tmp_path / "run" / "clients.jsonl")
    for row in rows:
        assert row["num_examples"] == 8 and row["noise_std"] > 0
        if row["degenerate"]:
            assert row["contribution_ratio"] == 1
        elif row["shapley_values"][0] == 0:
            assert row["contribution_ratio"] == 0
    assert any(row["shapley_values"][0] == 0 for row in rows)  # no private data
    assert any(row["shapley_values"][1] == 0 for row in rows)  # nothing else


def test_writers_who_fill_no_batch_are_left_out_and_data_of_no_use_are_refused(
    tmp_path: pathlib.Path,
) -> None:
    """Nothing is written then."""
    labels = [MIXED, [], [0], MIXED]
    config = odd(tmp_path, labels, num_clients=2)
    data = sources.load("npz", config.data_dir)
    assert build([config], data).data.min_num_examples == 8
    for config, named in (
        (odd(tmp_path, labels, num_clients=3), "num_clients must be between"),
        (odd(tmp_path, [MIXED, [0] * 10], num_hbc_clients=2), "private examples remov"),
    ):
        with pytest.raises(ValueError, match=named) as raised:
            run.train(config, tmp_path / "run")
        assert in_one_line(raised.value)
        assert not (tmp_path / "run").exists()
