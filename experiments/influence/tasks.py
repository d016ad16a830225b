"""Runs of the filter as rows, measured once and kept."""

import dataclasses
import json
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm import tqdm

from fedsvp_jax import influence, prng
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.influence import Verdict, pipeline
from fedsvp_jax.run.folder import RunFolder

from .simulation import Simulation

FILE = "runs.jsonl"
MEASURES = ("recall", "precision", "accuracy", "f1")
Row = dict[str, Any]


class Task(NamedTuple):
    """One row to be made: a part's settings at one run."""

    part: str
    settings: dict[str, Any]  # fields of the config, and num_participants
    run: int

    @property
    def name(self) -> str:
        """What tells a row from all others."""
        return json.dumps([self.part, self.settings, self.run])


def run_filter(simulation: Simulation, config: ExperimentConfig, run: int) -> Verdict:
    """One pass with a run's own noise; its leaves are numpy's."""
    root = prng.root_key(config.seed + run)
    verdict = pipeline.judge(
        simulation.inputs, config, contribution_key=root, vote_key=root
    )
    return jax.device_get(verdict)


def lazy_row(simulation: Simulation, config: ExperimentConfig, run: int) -> Row:
    """One pass, and how well it did."""
    verdict = run_filter(simulation, config, run)
    rejected, scores = np.asarray(verdict.rejected), np.asarray(verdict.scores)
    truth = np.asarray(verdict.true_scores)
    found = influence.filtration(rejected, simulation.corrupted)._asdict()
    return found | {
        "best_cut_f1": best_cut_f1(scores, simulation.corrupted),
        "true_vote_clean": _mean(truth[~simulation.corrupted]),
        "true_vote_corrupted": _mean(truth[simulation.corrupted]),
        "threshold": np.float32(verdict.threshold),
        "gap": np.float32(verdict.high - verdict.low),
    }


def best_cut_f1(scores: np.ndarray, corrupted: np.ndarray) -> float:
    """F1 of the best threshold that somebody who knows the truth could draw."""
    cuts = [*np.unique(scores), np.inf]
    every = [influence.filtration(scores < cut, corrupted).f1 for cut in cuts]
    return float(np.nanmax(every, initial=0.0))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def kept_rows(folder: RunFolder) -> dict[str, Row]:
    """The whole lines of a killed run, by task; a torn last line is dropped."""
    folder.drop_torn_line(FILE)
    return {row.pop("task"): row for row in folder.rows(FILE)}


def measure(
    tasks: Iterable[Task],
    make: Any,
    folder: RunFolder,
    *,
    progress: bool,
) -> dict[str, Row]:
    """Every task's row, made or read; the file has them in the tasks' order.

    Args:
      tasks: those of one simulation next to one another.
      make: Task -> row.
      folder: where `runs.jsonl` is kept, a line as soon as it is there.
      progress: draw a bar on a terminal.
    """
    rows = kept_rows(folder)
    todo = [task for task in tasks if task.name not in rows]
    for task in tqdm(todo, unit="run", disable=None if progress else True):
        start = time.perf_counter()
        row = make(task)
        seconds = time.perf_counter() - start
        head = {"part": task.part, **task.settings, "run": task.run}
        folder.append(FILE, [{"task": task.name, **head, **row}])
        folder.append("timing.jsonl", [{**head, "seconds": seconds}])
    return kept_rows(folder)


def aggregate(rows: Iterable[Row], names: Iterable[str] = MEASURES) -> Row:
    """Mean and std over runs; null where no run has the number."""
    rows, found = list(rows), {}
    for name in names:
        values = [row[name] for row in rows if row[name] is not None]
        found[name] = float(np.mean(values)) if values else None
        found[f"{name}_std"] = float(np.std(values)) if values else None
    return found


def with_settings(config: ExperimentConfig, task: Task) -> ExperimentConfig:
    """The config with the task's settings."""
    fields = {f.name for f in dataclasses.fields(ExperimentConfig)}
    changed = {k: v for k, v in task.settings.items() if k in fields}
    return dataclasses.replace(config, **changed)
