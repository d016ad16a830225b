"""`python -m experiments.benchmark`: its rows, its workloads, its manual."""

import dataclasses
import json
from typing import Any

import jax
import numpy as np
import pytest
from commands import assert_sentence, command, succeeds

from experiments.benchmark import measure, workloads
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.devices import target
from fedsvp_jax.federation import federated_data

TINY = {
    "model": "mlp",
    "side": 4,
    "channels": 1,
    "num_classes": 3,
    "num_clients": 4,
    "train": 12,
    "validation": 4,
    "batch_size": 3,
    "local_epochs": 2,
}


def test_a_row_holds_the_clock_and_the_counted_arithmetic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(measure._GEMM_SIZE, "cpu", 1024)
    changes = {"num_attributes": 2, "cohort_size": 2, "rounds_per_call": 2}
    changes |= {"mechanism": "fedsva", "l2_norm_clip": 1e3}
    workload = workloads.Workload("PE-TINY", **TINY, **changes)
    row = measure.measure_workload(workload, 2)
    assert (row["mechanism"], row["num_attributes"]) == ("fedsva", 2)
    assert 0 < row["gemm_fraction"] < 1
    seconds = [row[f"seconds_per_round_{name}"] for name in ("min", "median", "max")]
    assert seconds[0] > 0 and seconds == sorted(seconds)
    assert row["provenance"]["commit"] and row["provenance"]["date"]
    assert row["note"].startswith("samples: 2 of 2 rounds; cohort 2; arithmetic")


@pytest.mark.slow
def test_the_command_prints_one_json_line_per_work() -> None:
    flags = ("--works=W2", "--rounds=1")
    (line,) = succeeds("experiments.benchmark", *flags).stdout.splitlines()
    row = json.loads(line)
    assert (row["work"], row["mechanism"], row["num_attributes"]) == ("W2", "none", 1)


def test_help_explains_every_workload_and_an_unknown_one_is_a_sentence() -> None:
    manual = command("experiments.benchmark", "--help").stdout
    assert all(f"  {name} " in manual for name in workloads.NAMES)
    ended = command("experiments.benchmark", "--works=W2,W9")
    assert_sentence(ended, f"some of {', '.join(workloads.NAMES)}, got 'W2,W9'")


@pytest.mark.parametrize(
    "workload",
    [workload for name in workloads.NAMES for workload in workloads.of_name(name)],
    ids=lambda workload: (
        f"{workload.name}-{workload.num_attributes}-{workload.shapley}"
    ),
)
def test_every_client_trains_on_exactly_the_tasks_images(
    workload: workloads.Workload,
) -> None:
    config = workloads.make_config(workload)
    made = federated_data.federate([config], workloads.make_dataset(workload))
    assert set(np.asarray(made.split.num_train).ravel()) == {workload.train}
    assert set(np.asarray(made.split.num_validation).ravel()) == {workload.validation}
    ids = np.asarray(made.examples.attributes)
    kinds = workload.num_attributes
    rows = np.asarray(made.split.train)[0]
    counts = np.stack([np.bincount(ids[one], minlength=kinds) for one in rows])
    assert np.all(counts == counts[:1])  # every client's coalitions are as large
    assert counts.max() - counts.min() <= 1


QUICK = ("W1-DP-1-exact", "PE-W2-2-exact")


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(
            workload,
            id=row,
            marks=() if row in QUICK else pytest.mark.slow,
        )
        for name in workloads.NAMES
        for workload in workloads.of_name(name)
        for row in [f"{name}-{workload.num_attributes}-{workload.shapley}"]
    ],
)
def test_the_round_of_a_work_planned_for_an_accelerator_is_a_cpus(
    workload: workloads.Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All run on this CPU, on images of 8x8, with the same noise."""
    plain = workloads.make_config

    def paired(workload: workloads.Workload) -> ResolvedConfig:
        return dataclasses.replace(plain(workload), paired_noise=True)

    monkeypatch.setattr(workloads, "make_config", paired)
    parts = max(2, workload.num_attributes)
    sizes = {"side": 8, "num_clients": 2, "batch_size": 2, "local_epochs": 1}
    sizes |= {"train": 2 * parts, "validation": parts, "cohort_size": 2}
    workload = dataclasses.replace(workload, **sizes)

    def params(platform: str) -> Any:
        trainer = measure.make_trainer(workload, target=target.named_target(platform))
        state, metrics = trainer.advance(trainer.initial_state(), 0, 1)
        assert np.all(metrics.model_finite)
        return jax.device_get((trainer.initial_state().params, state.params))

    start, shipped = params("cpu")
    moved = max(
        np.max(np.abs(a - b))
        for a, b in zip(*map(jax.tree.leaves, (start, shipped)), strict=True)
    )
    assert moved > 1e-3
    share = 0.05 if workload.compute_dtype == "bfloat16" else 1e-4
    for platform in ("cuda", "tpu"):
        jax.tree.map(
            lambda ours, cpus: np.testing.assert_allclose(
                ours, cpus, rtol=0, atol=share * moved
            ),
            params(platform)[1],
            shipped,
        )
