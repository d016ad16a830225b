"""Runs small enough for a test: settings, data and compiled rounds that are shared."""

import dataclasses
import json
import pathlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from fedsvp_jax import models, run
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.devices.target import Target, current_target
from fedsvp_jax.federation import Program, build, loading
from fedsvp_jax.round import local_training
from fedsvp_jax.run import one_run, records, sweep
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer

SMALL = ExperimentConfig(
    dataset="digits",
    model="mlp",
    mechanism="fedsva",
    num_clients=7,
    num_hbc_clients=1,
    cohort_size=3,
    num_rounds=5,
    local_epochs=1,
    class_share=0.03,
    batch_size=5,
    client_chunk_size=1,
)
SAME_BYTES = ("config.json", "metrics.jsonl", "clients.jsonl", "summary.json")

_compiled: dict[tuple[Any, ...], Any] = {}
_make_model = cache(models.make_model)


class Stopped(Exception):
    """What a test stops a run with."""


@cache
def digits() -> Dataset:
    return loading.load_dataset(resolve(SMALL))


def small(**changes: Any) -> ExperimentConfig:
    return resolve(dataclasses.replace(SMALL, **changes))


def shared_trainer(program: Program, *, placement: Placement | None = None) -> Trainer:
    """A Trainer that shares its compiled rounds with all others of an equal plan.

    What else the cells say is an argument of the compiled rounds. Rounds with another
    training in its place (`quick_training`) are not shared with those of the real one.
    """
    trainer = Trainer(program, placement=placement)
    fixed = (
        program.model,
        program.plan,
        trainer.placement,
        program.stream is None,
        local_training.local_update,
    )
    trainer._compiled = _compiled.setdefault(fixed, trainer._compiled)
    return trainer


def small_trainer(
    *configs: ExperimentConfig,
    data: Dataset | None = None,
    placement: Placement | None = None,
    target: Target | None = None,
) -> Trainer:
    """The shared Trainer of some cells, on digits where no data set is given."""
    target, data = target or current_target(), data or digits()
    model = _make_model(
        configs[0].model, num_classes=data.num_classes, kernels=target.platform
    )
    program = build(configs, data, model=model, target=target)
    return shared_trainer(program, placement=placement)


def share_compiled_rounds(patch: pytest.MonkeyPatch) -> None:
    """Lets runs and sweeps of equal plans share one compiled program."""
    patch.setattr(models, "make_model", _make_model)  # equal models are one object
    for module in (one_run, sweep):
        patch.setattr(module, "Trainer", shared_trainer)


@pytest.fixture(scope="module")
def shared_rounds() -> Iterator[None]:
    """`share_compiled_rounds` for a whole module."""
    with pytest.MonkeyPatch.context() as patch:
        share_compiled_rounds(patch)
        yield


def stop_at(patch: pytest.MonkeyPatch, round_num: int, mechanism: str) -> None:
    """Stops the mechanism's run after a round's rows are made, before a checkpoint."""

    def check(*_: Any, **named: Any) -> None:
        if named["round_num"] == round_num and named["mechanism"] == mechanism:
            raise Stopped

    patch.setattr(records, "check_finite", check)


def run_small(
    config: ExperimentConfig,
    folder: pathlib.Path,
    *,
    rounds_per_call: int = 2,
    num_devices: int = 1,
    **named: Any,
) -> dict[str, Any]:
    """`run.train` on digits, or on `dataset`, with a checkpoint every second round."""
    data = named.pop("dataset", None) or digits()
    placement = Placement(num_devices=num_devices, rounds_per_call=rounds_per_call)
    options = run.Options(**{"checkpoint_every": 2} | named)
    return run.train(config, folder, dataset=data, placement=placement, options=options)


def read_rows(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def contents(folder: pathlib.Path, names: Sequence[str]) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in names}
