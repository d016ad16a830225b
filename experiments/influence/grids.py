"""The tasks of `experiments.influence`: its main table, its grids and its baselines."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsvp_jax import influence, prng
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.influence import pipeline

from . import baselines
from .simulation import Simulation
from .tasks import MEASURES, Result, Task, aggregate, run_filter

BASELINES = ("none", "oracle", "lazy", "centre")
REPORTED = (*MEASURES, "best_cut_f1", "true_vote_clean", "true_vote_corrupted")
GRIDS: dict[str, dict[str, Sequence[Any]]] = {
    "figure5": {
        "influence_epochs": (1, 3, 5, 7, 9),
        "influence_learning_rate": (0.5, 1.0, 2.0, 5.0, 10.0),
    },
    "figure6": {
        "num_participants": (50, 100, 200, 300, 400, 500),
        "vote_epsilon": (0.25, 0.5, 1.0, 2.0, 4.0, math.inf),
    },
    "ablation": {
        "vote_epsilon": (1.0, math.inf),
        "contribution_noise": (0.0, 0.1, 0.3, 1.0, 3.0, 7.462),  # the last: ε = 1
    },
}


def table_tasks(num_participants: int, num_runs: int) -> list[Task]:
    """The settings of the command line at every run."""
    settings = {"num_participants": num_participants}
    return [Task("table", settings, run) for run in range(num_runs)]


def grid_tasks(grid: str, num_participants: int, num_runs: int) -> list[Task]:
    """Every point of a grid at every run; tasks of one simulation stand together."""
    points = [
        {"num_participants": num_participants}
        | dict(zip(GRIDS[grid], values, strict=True))
        for values in itertools.product(*GRIDS[grid].values())
    ]
    tasks = [Task(grid, point, run) for point in points for run in range(num_runs)]
    return sorted(tasks, key=lambda task: (task.settings["num_participants"], task.run))


def baseline_tasks(
    names: Sequence[str], num_participants: int, num_runs: int
) -> list[Task]:
    """The named baselines at every run."""
    return [
        Task("baselines", {"num_participants": num_participants, "filter": name}, run)
        for run in range(num_runs)
        for name in names
    ]


def grid_summary(results: Sequence[Result], varied: Sequence[str]) -> list[Result]:
    """Mean and standard deviation over the runs of each point of a grid."""
    points: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        points.setdefault(tuple(result[name] for name in varied), []).append(result)
    measures = [name for name in (*REPORTED, "model_accuracy") if name in results[0]]
    return [
        dict(zip(varied, point, strict=True)) | aggregate(of_point, measures)
        for point, of_point in points.items()
    ]


def rejected_by(
    name: str, simulation: Simulation, config: ExperimentConfig, run: int
) -> np.ndarray:
    """(M,) bool: whom a baseline rejects; scores are split by 2-means."""
    rates = pipeline.filter_rates(config)
    root = prng.root_key(config.seed + run)
    kernel, train, _, warmup = simulation.inputs
    match name:
        case "none":
            return np.zeros_like(simulation.corrupted)
        case "oracle":
            return simulation.corrupted
        case "lazy":
            return np.asarray(run_filter(simulation, config, run).rejected)
    scores = baselines.centre_validation(kernel, train, warmup, rates, key=root)
    return np.asarray(scores < influence.two_means(scores).threshold)


def baseline_result(
    name: str, simulation: Simulation, config: ExperimentConfig, run: int
) -> Result:
    """How well a baseline filters, and the last layer trained on those it keeps."""
    rejected = rejected_by(name, simulation, config, run)
    kernel, train, test, _ = simulation.inputs
    accuracy = baselines.model_accuracy(
        kernel, train, test, ~rejected, pipeline.filter_rates(config)
    )
    return influence.filtration(rejected, simulation.corrupted)._asdict() | {
        "model_accuracy": np.asarray(accuracy)[()]
    }
