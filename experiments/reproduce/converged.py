"""The published tables to convergence: one short run per cell, in any number of parts.

A cell is one mechanism at one ε (or at one given std of the noise), one seed and one
number of attributes, in one scenario (experiments/presets/*_medium.flags). When its run
is finished it is kept as docs/results/reproduction/medium/NAME.json, and is not run
again. A run that was stopped or killed goes on from its newest checkpoint.

`plan` orders the cells so that what teaches most comes first: how accuracy follows the
noise, then the published cells at the ends of the range of ε, then those between, then
the number of attributes, then more seeds.
"""

import datetime
import json
import os
import signal
import statistics
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedsvp_jax.report import read

from .. import presets

KEPT = "medium"  # the folder of the cells, in docs/results/reproduction
SCENARIO_OF = {  # preset -> the column of the published tables
    "cifar10_medium": "ResNet-18 @ CIFAR-10",
    "femnist_medium": "CNN @ FEMNIST",
}
# Stds of an upload's noise: from where accuracy hardly falls to what the printed
# formulas give at the published ε or above: .115 to .575 and .0083 to .0412.
NOISE_STDS = {
    "femnist_medium": (0.003, 0.0083, 0.0146, 0.0206, 0.0412, 0.0824, 0.15, 0.3),
    "cifar10_medium": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.115, 0.288, 0.575),
}
CONVERGED = 0.01  # of accuracy: the most that a converged run gains in its last fifth
CHECKPOINT_EVERY = 25
_WHERE = ("device_kind", "xla_flags", "versions", "data_fingerprint")


class Cell(NamedTuple):
    """What tells one run from the others."""

    preset: str
    mechanism: str
    level: float | None = None  # ε; the noise's std for `gaussian`; None for FedAvg
    seed: int = 0
    num_attributes: int = 2
    schedule_level: str = "budget"  # of time_varying and dpa

    @property
    def name(self) -> str:
        """The name of its file and folder: `femnist/nbafl-0.2-n2-s0`."""
        level = "" if self.level is None else f"-{self.level:g}"
        reading = "" if self.schedule_level == "budget" else f"-{self.schedule_level}"
        return (
            f"{self.preset.removesuffix(presets.MEDIUM)}/{self.mechanism}{level}"
            f"{reading}-n{self.num_attributes}-s{self.seed}"
        )


TABLE_1 = ("nbafl", "fedsva", "time_varying", "reestimation", "dpa")
TABLE_I = ("nbafl", "fedsdp", "time_varying", "reestimation")
CENTRAL = ("nbafl", "fedsdp", "fedsva")  # what the papers compare: three seeds first


def plan() -> list[Cell]:
    """Every cell once, in the order in which they are run."""
    both = tuple(SCENARIO_OF)

    def response(preset: str, seed: int) -> list[Cell]:
        stds = NOISE_STDS[preset]
        return [
            Cell(preset, "none", seed=seed),
            *(Cell(preset, "gaussian", std, seed) for std in stds),
        ]

    def table(
        preset: str, names: Iterable[str], epsilons: Iterable[float], seed: int = 0
    ) -> list[Cell]:
        return [
            Cell(preset, name, epsilon, seed) for epsilon in epsilons for name in names
        ]

    cells: list[Cell] = []
    for preset in both:
        cells += response(preset, 0) + table(preset, TABLE_1, (0.2, 0.5))
    for preset in both:
        cells += table(preset, TABLE_1, (0.3, 0.4))
        cells += table(preset, TABLE_I, (0.1, 0.2, 0.3, 0.4, 0.5))
        # DPA's schedule is nearly the same, so its other reading is not run.
        cells += [
            Cell(preset, "time_varying", epsilon, schedule_level="first_round")
            for epsilon in (0.2, 0.5)
        ]
    for preset in both:  # the cheaper scenario first
        for seed in (1, 2):
            cells += [Cell(preset, "none", seed=seed)]
            cells += table(preset, CENTRAL, (0.2, 0.5), seed)
        if preset == "cifar10_medium":
            cells += [
                Cell(preset, "fedsva", epsilon, 0, number)
                for number in (3, 4, 5)
                for epsilon in (0.2, 0.5)
            ]
            cells += response(preset, 1) + response(preset, 2)
    for preset in both:
        names = tuple(dict.fromkeys(TABLE_1 + TABLE_I))
        for seed in (1, 2):
            cells += table(preset, names, (0.2, 0.5), seed) + response(preset, seed)
    return list(dict.fromkeys(cells))


def settings(cell: Cell) -> dict[str, Any]:
    """The settings of a cell that its preset and itself name."""
    chosen: dict[str, Any] = presets.values(presets.read_preset(cell.preset))
    chosen |= {
        "mechanism": cell.mechanism,
        "seed": cell.seed,
        "num_attributes": cell.num_attributes,
        "schedule_level": cell.schedule_level,
    }
    if cell.mechanism == "gaussian":
        chosen["noise_std"] = cell.level
    elif cell.level is not None:
        chosen["epsilon"] = cell.level
    return chosen


def run(
    wanted: Iterable[Cell],
    *,
    data_dir: str,
    output_dir: Path,
    kept: Path,
    until: datetime.datetime | None,
) -> None:
    """Runs the cells that are not kept yet, one after another.

    Args:
      wanted: the cells, in their order.
      data_dir: folder with the data sets' files.
      output_dir: of the runs' folders, where a stopped one goes on.
      kept: of the cells' files.
      until: when to stop, at the end of a round whose state is saved; None: never.

    Raises:
      ValueError: settings or data are not fit.
      stopping.Stopped: the time is over, or SIGINT or SIGTERM came.
    """
    import jax

    from fedsvp_jax.config import ExperimentConfig, resolve
    from fedsvp_jax.federation import loading
    from fedsvp_jax.run import one_run

    if until is not None:
        stop_at(until)
    datasets: dict[str, Any] = {}
    for cell in wanted:
        target = kept / f"{cell.name}.json"
        if target.is_file():
            continue
        config = resolve(ExperimentConfig(**settings(cell), data_dir=data_dir))
        if cell.preset not in datasets:
            datasets = {cell.preset: loading.load_data(config)}  # one at a time
        folder = output_dir / cell.name
        fresh = not folder.exists()
        started, used = time.perf_counter(), time.process_time()
        one_run.train(
            config,
            folder,
            dataset=datasets[cell.preset],
            resume=True,
            checkpoint_every=CHECKPOINT_EVERY,
        )
        price = {
            "wall_seconds": round(time.perf_counter() - started, 1),
            "cpu_seconds": round(time.process_time() - used, 1),
        }
        keep(cell, folder, target, price if fresh else {})
        print(f"{_now()} {cell.name} {price}", flush=True)
        jax.clear_caches()


def stop_at(until: datetime.datetime) -> threading.Timer:
    """Sends this process SIGTERM then, at which a run saves its state and ends."""
    left = (until - datetime.datetime.now(until.tzinfo)).total_seconds()
    timer = threading.Timer(max(left, 0.0), os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    return timer


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def keep(cell: Cell, folder: Path, target: Path, price: Mapping[str, float]) -> None:
    """Writes what the page needs of a finished run, whole or not at all."""
    files = read.read_run(folder)
    rows = files.metrics
    stds = [row["noise_std_mean"] for row in rows]
    noisy = [row for row in rows if row["noise_l2"]]
    averaged = [row["aggregate_noise_l2"] / row["noise_l2"] for row in noisy]
    ratios = [row["contribution_ratio_mean"] for row in rows]
    result = {
        **cell._asdict(),
        "date": _now()[:10],
        **{name: files.config[name] for name in _WHERE},
        **price,
        "accuracy": [round(row["test_accuracy"], 6) for row in rows],
        "upload_noise_std": statistics.fmean(s * s for s in stds) ** 0.5,
        "averaging": statistics.fmean(averaged) if averaged else None,
        "noise_l2": [round(row["noise_l2"], 4) for row in rows],
        "contribution_ratio": None
        if None in ratios
        else [round(ratio, 5) for ratio in ratios],
        "epsilon_spent": [row["epsilon_spent"]["basic"] for row in rows],
        "params_sha256": files.summary["params_sha256"],
        "settings": settings(cell),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    read.write_text(target, json.dumps(result, ensure_ascii=False) + "\n")
