"""Times rounds of many sizes and fits a cost model to them.

    python -m experiments.benchmark.scaling

Rows are saved beside docs/results/scaling.json as they are measured, so the same
command continues where it was killed; when all are measured, that file is removed.

Devices are virtual: threads of one CPU. Rows with several devices therefore show what
distributing clients costs, and no more speed than there are cores. The fitted model is

    seconds = a + waves * (b * steps + c * gflop) + d * crowd * rows * gigabytes

by least squares of relative errors with non-negative coefficients, where
  waves      ceil(K / D) * crowd: clients that a core runs one after another,
  crowd      max(1, D / cores): devices per core,
  steps      training steps of a client, over all coalitions, and gflop their FLOPs,
  rows       rows of uploads that each device handles: its own and all gathered ones,
  gigabytes  4 (P + S) / 1e9, the size of an upload.
"""

import dataclasses
import json
import os
import pathlib
from typing import Any

import jax
import numpy as np

from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.run.environment import environment

from .. import command, kept_rows
from . import arithmetic, communication, workloads
from .measure import Run, make_trainer, seconds_per_round
from .workloads import Task, Workload

RESULTS = pathlib.Path("docs/results/scaling.json")
_MOST_DEVICES = 8
_MLP = dataclasses.replace(workloads.SMALL, model="mlp")
_WIDE = Task("leaf_cnn", 28, 1, 62, 16, train=50, validation=10, batch=50, epochs=1)


@dataclasses.dataclass(frozen=True)
class Point:
    """One size that is measured."""

    varied: str  # the axis along which it differs from other points
    workload: Workload
    num_devices: int = 1


def _workload(
    task: Task = workloads.SMALL, cohort: int = 8, attributes: int = 1
) -> Workload:
    mechanism = "none" if attributes == 1 else "fedsva"
    return Workload(
        "SCALING", task, mechanism, attributes, l2_norm_clip=1e3, cohort_size=cohort
    )


def points() -> list[Point]:
    """Sizes that vary along one axis at a time, and strong and weak scaling."""

    def examples(train: int) -> Task:
        return dataclasses.replace(workloads.SMALL, train=train)

    return [
        *(Point("cohort", _workload(cohort=k)) for k in (2, 8, 32)),
        *(Point("examples", _workload(examples(n))) for n in (56, 224)),
        Point("parameters", _workload(_MLP)),
        *(Point("parameters", _workload(_WIDE, cohort=k)) for k in (2, 8)),
        *(Point("attributes", _workload(attributes=n)) for n in (2, 3)),
        *(Point("devices_strong", _workload(), d) for d in (1, 2, 4, 8)),
        *(Point("devices_weak", _workload(cohort=4 * d), d) for d in (1, 2, 4, 8)),
        *(Point("devices_strong_wide", _workload(_WIDE), d) for d in (2, 4)),
    ]


def trainer_of(point: Point) -> Trainer:
    """A trainer whose devices train one client at a time, to share the cohort."""
    placement = Placement(num_devices=point.num_devices, rounds_per_call=5)
    return make_trainer(point.workload, placement, client_chunk_size=1)


def measure(point: Point, samples: int) -> dict[str, Any]:
    """The point's sizes and its seconds per round."""
    trainer = trainer_of(point)
    dataset_classes = point.workload.task.classes
    steps = sum(steps for _, steps in arithmetic.coalition_steps(trainer).values())
    cohort = point.workload.cohort_size
    flops = arithmetic.round_flops(trainer, dataset_classes).total / cohort
    state = trainer.initial_state()
    model = sum(leaf.nbytes for leaf in jax.tree.leaves((state.params, state.stats)))
    run = Run(trainer, state)
    run.call()  # compiles
    return {
        "varied": point.varied,
        "model": point.workload.task.model,
        "num_devices": point.num_devices,
        "cohort_size": cohort,
        "num_attributes": point.workload.num_attributes,
        "examples_per_client": point.workload.task.train,
        "model_bytes": model,
        "steps_per_client": steps,
        "gflop_per_client": flops / 1e9,
        "gathered_bytes": communication.gathered(trainer).total,
        "samples": samples,
        **seconds_per_round([run.call() for _ in range(samples)]),
    }


def features(row: dict[str, Any], cores: int) -> list[float]:
    """The factors of the coefficients a, b, c and d."""
    devices, cohort = row["num_devices"], row["cohort_size"]
    crowd = max(1.0, devices / cores)
    waves = -(-cohort // devices) * crowd
    rows = communication.rows_of(cohort, 1, devices)
    handled = rows // devices + (rows if devices > 1 else 0)
    return [
        1.0,
        waves * row["steps_per_client"],
        waves * row["gflop_per_client"],
        crowd * handled * row["model_bytes"] / 1e9,
    ]


def fit(rows: list[dict[str, Any]], cores: int) -> dict[str, Any]:
    """The coefficients, and the ratio of predicted to measured time of each row."""
    measured = np.asarray([row["seconds_per_round_median"] for row in rows])
    table = np.asarray([features(row, cores) for row in rows])
    from scipy import optimize

    coefficients, _ = optimize.nnls(table / measured[:, None], np.ones(len(rows)))
    ratios = table @ coefficients / measured
    names = (
        "seconds_a_round",
        "seconds_a_step",
        "seconds_a_gflop",
        "seconds_a_gigabyte_of_uploads",
    )
    return {
        "coefficients": dict(zip(names, coefficients.tolist(), strict=True)),
        "predicted_over_measured": ratios.tolist(),
        "median_error": float(np.median(np.abs(ratios - 1))),
        "worst_error": float(np.max(np.abs(ratios - 1))),
    }


def limits(parameters: float, cohort: int, num_devices: int) -> dict[str, float]:
    """Gigabytes that a device holds when it trains one client at a time.

    They follow from the shapes of the arrays. Models: before and after the round, the
    client's model and gradient, and its upload. Uploads: their sum, the device's own
    and, with several devices, all that were gathered in one turn.
    """
    rows = communication.rows_of(cohort, 1, num_devices)
    one = 4 * parameters / 1e9
    uploads = (2 + (num_devices if num_devices > 1 else 0)) * one
    received = (rows - rows // num_devices) * one
    return {
        "parameters": parameters,
        "cohort_size": cohort,
        "num_devices": num_devices,
        "gigabytes_of_uploads": uploads,
        "gigabytes_of_models": 5 * one,
        "gigabytes_received_a_round": received,
    }


def main(_: list[str]) -> None:
    """Measures the points that an interrupted run left out, and writes the file."""
    rows_file = RESULTS.with_suffix(".rows.jsonl")
    rows = kept_rows.read(rows_file)
    jax.config.update("jax_num_cpu_devices", _MOST_DEVICES)
    cores = len(os.sched_getaffinity(0))
    for point in points()[len(rows) :]:
        load = os.getloadavg()[0]
        rows.append(measure(point, samples=3) | {"load_before": load})
        print(json.dumps(rows[-1]), flush=True)
        kept_rows.add(rows_file, rows[-1])
    result: dict[str, Any] = {
        "environment": environment() | {"cores": cores},
        "rows": rows,
        "fit": fit(rows, cores),
        "limits": [
            limits(parameters, cohort, devices)
            for parameters, cohort, devices in (
                (1e7, 10, 1),
                (1e9, 10, 1),
                (1e9, 10, 8),
                (1e9, 100, 8),
                (1e7, 1000, 8),
            )
        ],
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    rows_file.unlink()
    command.print_files([RESULTS])


if __name__ == "__main__":
    command.run(main, __doc__)
