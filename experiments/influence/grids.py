"""What `experiments.influence` measures beside its main table: grids and baselines."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsvp_jax import influence, prng
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.influence import baselines, pipeline

from .simulation import Simulation
from .tasks import MEASURES, Row, Task, aggregate, run_filter

BASELINES = ("none", "oracle", "lazy", "centre", "first_order", "exact", "shapley")
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
        "contribution_noise": (0.0, 0.1, 0.3, 1.0),
    },
}


def grid_tasks(part: str, num_participants: int, num_runs: int) -> list[Task]:
    """A part's grid at every run; those of one simulation next to one another."""
    people = {"num_participants": num_participants}
    points = [
        people | dict(zip(GRIDS[part], values, strict=True))
        for values in itertools.product(*GRIDS[part].values())
    ]
    tasks = [Task(part, point, run) for point in points for run in range(num_runs)]
    return sorted(tasks, key=lambda task: (task.settings["num_participants"], task.run))


def main_tasks(num_participants: int, num_runs: int) -> list[Task]:
    """The settings as they are."""
    people = {"num_participants": num_participants}
    return [Task("table", people, run) for run in range(num_runs)]


def baseline_tasks(
    names: Sequence[str], num_participants: int, num_runs: int
) -> list[Task]:
    """The baselines at every run."""
    people = {"num_participants": num_participants}
    return [
        Task("baselines", people | {"filter": name}, run)
        for run in range(num_runs)
        for name in names
    ]


def grid_summary(rows: Sequence[Row], varied: Sequence[str]) -> list[Row]:
    """Means and stds over the runs of each point."""
    points: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        points.setdefault(tuple(row[name] for name in varied), []).append(row)
    measures = [name for name in (*REPORTED, "model_accuracy") if name in rows[0]]
    return [
        dict(zip(varied, point, strict=True)) | aggregate(of_point, measures)
        for point, of_point in points.items()
    ]


def rejected_by(
    name: str, simulation: Simulation, config: ExperimentConfig, run: int
) -> np.ndarray:
    """(M,) bool: whom a baseline rejects; its scores are cut by 2-means."""
    rates = pipeline.filter_rates(config)
    root = prng.root_key(config.seed + run)
    if name == "none":
        return np.zeros_like(simulation.corrupted)
    if name == "oracle":
        return simulation.corrupted
    if name == "lazy":
        return np.asarray(run_filter(simulation, config, run).rejected)
    if name == "centre":
        scores = baselines.centre_validation(
            simulation.inputs.kernel,
            simulation.inputs.train,
            simulation.inputs.warmup,
            rates,
            key=root,
        )
    elif name == "first_order":
        scores = baselines.first_order_influence(
            simulation.inputs.kernel, simulation.inputs.train, simulation.inputs.test
        )
    elif name == "exact":
        scores = baselines.exact_influence(
            simulation.inputs.kernel,
            simulation.inputs.train,
            simulation.inputs.test,
            rates,
        )
    else:
        scores = baselines.data_shapley(
            simulation.inputs.kernel,
            simulation.inputs.train,
            simulation.inputs.test,
            rates,
            num_permutations=10,
            tolerance=0.01,
            key=prng.stream_key(root, prng.Stream.INFLUENCE),
        )
    return np.asarray(scores < influence.two_means_threshold(scores))


def baseline_row(
    name: str, simulation: Simulation, config: ExperimentConfig, run: int
) -> Row:
    """How well a baseline filters, and the last layer that its choice gives."""
    rejected = rejected_by(name, simulation, config, run)
    accuracy = baselines.model_accuracy(
        simulation.inputs.kernel,
        simulation.inputs.train,
        simulation.inputs.test,
        ~rejected,
        pipeline.filter_rates(config),
    )
    found = influence.filtration(rejected, simulation.corrupted)._asdict()
    return found | {"model_accuracy": np.asarray(accuracy)[()]}
