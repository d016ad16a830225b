"""Compiles the benchmark for accelerators that are not there, and counts.

    make accelerators                                    # the compilers, once
    python -m experiments.benchmark.accelerators         # compares with the kept rows

Each row is compiled in a process of its own, one after another (`compiled` has what is
counted). Nothing is run on an accelerator. A
row that is more than 10 % worse than the kept one ends the command with status 2. The
rows take the place of the kept ones, which git still has.
--accelerators and --works select rows.
"""

import json
import os
import pathlib
import sys
from typing import Any

from absl import flags

from fedsvp_jax.core.files import Record

from .. import command, provenance
from . import compiled, workloads

ROOT = pathlib.Path(__file__).parents[2]
COMPILERS = ROOT / ".accelerators"
KEPT = pathlib.Path("docs/results/accelerators.jsonl")
# Keys of which less is better.
COSTS = ("round_cycles", "round_kernels", "moved_bytes", "watched_loops", "bytes")

if __name__ == "__main__":  # a test reads the functions only
    command.define("accelerators")


def tasks(devices: list[str], works: list[str]) -> list[tuple[str, str, int]]:
    """(device, workload, its row's number) of all rows."""
    return [
        (device, name, index)
        for device in devices
        for name in works
        for index in range(len(workloads.of_name(name)))
    ]


def compile_row(device: str, name: str, index: int) -> Record:
    """A row, from a process that has the compilers.

    Raises:
      ValueError: the compilers are not installed.
    """
    if not COMPILERS.is_dir():
        raise ValueError("the accelerators' compilers are missing: `make accelerators`")
    os.environ |= {"JAX_PLATFORMS": "cpu", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    sys.path.insert(0, str(COMPILERS))  # which the process inherits
    return workloads.in_new_process(compiled.row, device, name, index)


def key(row: Record) -> tuple[Any, ...]:
    """The key of a measurement: device, workload and row."""
    return row["device"], row["work"], row["index"]


def worse(new: Record, baseline: Record) -> list[str]:
    """The costs of a row that are more than 10 % above the kept ones."""
    return [
        f"{' '.join(map(str, key(new)))}: {cost} {new[cost]} after {baseline[cost]}"
        for cost in COSTS
        if baseline.get(cost) is not None and new[cost] > 1.1 * baseline[cost]
    ]


def main(_: list[str]) -> None:
    """Compiles the rows, compares and keeps them."""
    values = flags.FLAGS
    baseline = {key(row): row for row in map(json.loads, KEPT.open())}
    problems = []
    for task in tasks(values.accelerators, values.works):
        row = compile_row(*task)
        print(json.dumps(row), flush=True)
        if task in baseline:
            problems += worse(row, baseline[task])
        baseline[task] = row | {"provenance": provenance.stamp(None, None)}
        KEPT.write_text("".join(json.dumps(x) + "\n" for x in baseline.values()))
    if problems:
        raise ValueError("more than 10 % worse: " + "; ".join(problems))
    command.print_files([KEPT])


if __name__ == "__main__":
    command.run(main, __doc__)
