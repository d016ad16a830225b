"""Seconds per round by the number of attributes: the times of FedSVA's Table 2.

The runs of the table share a machine with other work, so their times say little. Here
each row's rounds are timed in turn with the others', without the round that compiles,
and the load of the machine is kept with them.
"""

import datetime
import itertools
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from fedsvp_jax.report import read

from . import converged
from .converged import Cell

NAME = "times.json"  # in the folder of the kept cells
COMMAND = "python -m experiments.reproduce --size=medium --times"
ROUNDS = 4  # timed per repeat, after the one that compiles
REPEATS = 3
TIMED = (
    Cell("cifar10_medium", "none"),
    *(Cell("cifar10_medium", "fedsva", 0.2, 0, number) for number in (2, 3, 4, 5)),
)

Times = dict[str, Any]


def measure(data_dir: str) -> Times:
    """Times every row of TIMED.

    Returns:
      date, command, device_kind, xla_flags, `load` (the largest mean load of the last
      minute, this program's own included) and `rows`: mechanism, num_attributes,
      rounds, and medians per round of seconds and of CPU seconds of all cores.

    Raises:
      ValueError: the data are not fit.
    """
    from fedsvp_jax.config import ExperimentConfig, resolve
    from fedsvp_jax.federation import loading
    from fedsvp_jax.run import environment, one_run

    taken: dict[Cell, list[tuple[float, float]]] = {cell: [] for cell in TIMED}
    dataset, load = None, 0.0
    for _ in range(REPEATS):
        for cell in TIMED:
            settings = converged.settings(cell) | {"num_rounds": ROUNDS + 1}
            config = resolve(ExperimentConfig(**settings, data_dir=data_dir))
            dataset = dataset or loading.load_data(config)
            stamps: list[tuple[float, float]] = []

            def note(_: int, row: Any, stamps: list[Any] = stamps) -> None:
                del row
                stamps.append((time.perf_counter(), time.process_time()))

            with tempfile.TemporaryDirectory() as folder:
                one_run.train(config, folder, dataset=dataset, on_round=note)
            taken[cell] += [
                (after[0] - before[0], after[1] - before[1])
                for before, after in itertools.pairwise(stamps)
            ]
            load = max(load, os.getloadavg()[0])
    where = environment.environment()
    return {
        "command": COMMAND,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **{name: where[name] for name in ("device_kind", "xla_flags")},
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "rows": [
            {
                "mechanism": cell.mechanism,
                "num_attributes": cell.num_attributes,
                "rounds": len(pairs),
                "seconds": round(statistics.median(wall for wall, _ in pairs), 4),
                "cpu_seconds": round(statistics.median(cpu for _, cpu in pairs), 4),
            }
            for cell, pairs in taken.items()
        ],
    }


def write(folder: Path, times: Times) -> None:
    """Keeps them beside the cells."""
    read.write_text(folder / NAME, json.dumps(times, indent=1) + "\n")


def load(folder: Path) -> Times | None:
    """The kept times; None if there are none."""
    path = folder / NAME
    return read.from_json(path.read_text()) if path.is_file() else None


def row_of(times: Times | None, mechanism: str, num_attributes: int) -> Any | None:
    """The times of one row of the table; None if they were not taken."""
    for row in times["rows"] if times else []:
        if (row["mechanism"], row["num_attributes"]) == (mechanism, num_attributes):
            return row
    return None
