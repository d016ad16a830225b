"""What `experiments.influence` computes: one result per task, kept in runs.jsonl."""

import dataclasses
import json
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm import tqdm

from fedsvp_jax import influence, prng
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.influence import Verdict, pipeline
from fedsvp_jax.run.folder import RunFolder

from .. import kept_rows
from .simulation import Simulation

RESULTS_FILE = "runs.jsonl"
MEASURES = ("recall", "precision", "accuracy", "f1")
Result = dict[str, Any]


class Task(NamedTuple):
    """One result to compute: some settings at one run."""

    part: str  # the table or figure that the result belongs to
    settings: dict[str, Any]  # fields of the config, and num_participants
    run: int

    @property
    def name(self) -> str:
        """Identifies the task among all others in runs.jsonl."""
        return json.dumps([self.part, self.settings, self.run])


def run_filter(simulation: Simulation, config: ExperimentConfig, run: int) -> Verdict:
    """The verdict of one pass, as numpy arrays; its noise follows from the run."""
    root = prng.root_key(config.seed + run)
    kernel, train, test, _ = simulation.inputs
    rates = pipeline.filter_rates(config)
    verdict = influence.lazy_influence(
        kernel, train, test, rates, contribution_key=root, vote_key=root
    )
    return jax.device_get(verdict)


def filter_result(simulation: Simulation, config: ExperimentConfig, run: int) -> Result:
    """One pass of the filter, and how well it separated the corrupted participants."""
    verdict, corrupted = run_filter(simulation, config, run), simulation.corrupted
    rejected, scores = np.asarray(verdict.rejected), np.asarray(verdict.scores)
    true_scores = np.asarray(verdict.true_scores)
    return influence.filtration(rejected, corrupted)._asdict() | {
        "best_cut_f1": best_cut_f1(scores, corrupted),
        "true_vote_clean": _mean(true_scores[~corrupted]),
        "true_vote_corrupted": _mean(true_scores[corrupted]),
        "threshold": np.float32(verdict.threshold),
        "gap": np.float32(verdict.high - verdict.low),
    }


def best_cut_f1(scores: np.ndarray, corrupted: np.ndarray) -> float:
    """F1 at the best threshold, which only someone who knows the truth can choose."""
    thresholds = [*np.unique(scores), np.inf]
    f1 = [influence.filtration(scores < at, corrupted).f1 for at in thresholds]
    return float(np.nanmax(f1, initial=0.0))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def kept_results(folder: RunFolder) -> dict[str, Result]:
    """The results of runs.jsonl by task name."""
    rows = kept_rows.read(folder.path / RESULTS_FILE)
    return {result.pop("task"): result for result in rows}


def measure(
    tasks: Iterable[Task],
    compute: Callable[[Task], Result],
    folder: RunFolder,
    *,
    progress: bool,
) -> dict[str, Result]:
    """The results of all tasks by name; those that the folder holds are not repeated.

    Args:
      tasks: in the order of the file; tasks of the same simulation stand together.
      compute: the result of one task.
      folder: each result is written to its runs.jsonl as soon as it is computed.
      progress: show a progress bar on a terminal.
    """
    kept = kept_results(folder)
    missing = [task for task in tasks if task.name not in kept]
    for task in tqdm(missing, unit="run", disable=None if progress else True):
        start = time.perf_counter()
        result = compute(task)
        seconds = time.perf_counter() - start
        head = {"part": task.part, **task.settings, "run": task.run}
        row = {"task": task.name, **head, **result}
        kept_rows.add(folder.path / RESULTS_FILE, row)
        folder.append("timing.jsonl", [{**head, "seconds": seconds}])
    return kept_results(folder)


def aggregate(results: Iterable[Result], names: Iterable[str] = MEASURES) -> Result:
    """Mean and standard deviation over runs; None where no run has the number."""
    results, summary = list(results), {}
    for name in names:
        values = [result[name] for result in results if result[name] is not None]
        summary[name] = float(np.mean(values)) if values else None
        summary[f"{name}_std"] = float(np.std(values)) if values else None
    return summary


def with_settings(config: ExperimentConfig, task: Task) -> ExperimentConfig:
    """The config with the task's settings in place of its own."""
    fields = {field.name for field in dataclasses.fields(ExperimentConfig)}
    changes = {name: v for name, v in task.settings.items() if name in fields}
    return dataclasses.replace(config, **changes)
