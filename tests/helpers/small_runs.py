"""Runs small enough for a test: settings, data and compiled rounds that are shared."""

import dataclasses
import pathlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import build, loading
from fedsvp_jax.run import loop, one_run, sweep

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

_trainers: dict[tuple[Any, ...], Trainer] = {}


class Stopped(Exception):
    """What a test stops a run with."""


@cache
def digits() -> Dataset:
    return loading.load_dataset(resolve(SMALL))


def small(**changes: Any) -> ExperimentConfig:
    return resolve(dataclasses.replace(SMALL, **changes))


def shared_trainer(
    configs: Sequence[ExperimentConfig],
    dataset: Dataset,
    *,
    model: None = None,
    placement: Placement | None = None,
) -> Trainer:
    """A Trainer compiled once a session: it holds no state of a run."""
    assert dataset is digits() and model is None
    placed = (*configs, placement)
    if placed not in _trainers:
        _trainers[placed] = Trainer(build(configs, dataset), placement=placement)
    return _trainers[placed]


def share_compiled_rounds(patch: pytest.MonkeyPatch) -> None:
    """Lets runs and sweeps of equal settings share one compiled program."""
    for module in (one_run, sweep):
        patch.setattr(module, "Trainer", shared_trainer)


def stop_at(patch: pytest.MonkeyPatch, round_num: int, mechanism: str) -> None:
    """Stops the mechanism's run after a round's rows are made, before a checkpoint."""

    def check(*_: Any, **named: Any) -> None:
        if named["round_num"] == round_num and named["mechanism"] == mechanism:
            raise Stopped

    patch.setattr(loop.records, "check_finite", check)


def contents(folder: pathlib.Path, names: Sequence[str]) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in names}
