"""Traces one round of a workload: its time by layer and direction.

  python -m experiments.benchmark.profile --work=W1

Writes docs/results/profile_W1.json and docs/images/profile_W1.svg. JAX's
profiler times XLA's thunks; each is named by its instruction's op_name, which holds the
model's layer. FLOPs are those of the layers' matrix products. Tracing slows the round
by a few per cent. It needs a CPU, since the events of a GPU have other names.
"""

import collections
import json
import pathlib
import re
import tempfile
from typing import Any, NamedTuple

import jax
from absl import flags
from jax.profiler import ProfileData

from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.report import figures, style
from fedsvp_jax.run.environment import environment

from .. import command, flag_values
from . import arithmetic, measure, workloads

flags.DEFINE_string(
    "work", "W1", "Workload, by its name in `python -m experiments.benchmark --help`."
)

_CONTAINERS = ("while", "call", "conditional", "tuple", "async")
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%(\S+) = (?:\([^=]*\)|\S+) ([\w-]+)\(")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_SCOPE = re.compile(r"(transpose\()?jvp\(\w+\)\)?/([A-Z]\w*)")


class Part(NamedTuple):
    """The part of a round that a thunk belongs to."""

    layer: str
    direction: str  # forward | backward | step | round
    product: bool


def scope_of(name: str) -> tuple[str, str] | None:
    """`(layer, direction)` of an op_name or name stack; None outside a model."""
    match = _SCOPE.search(name)
    if not match:
        return None
    return match[2], "backward" if match[1] else "forward"


def instructions(hlo: str) -> dict[str, str]:
    """Instruction name -> op_name of a compiled program, without loops and calls."""
    names = {}
    for line in hlo.splitlines():
        match = _INSTRUCTION.match(line)
        if match and match[2] not in _CONTAINERS:
            op_name = _OP_NAME.search(line)
            names[match[1]] = op_name[1] if op_name else ""
    return names


def part_of(op_name: str, events: int, steps: int) -> Part:
    """The part that an instruction belongs to."""
    product = op_name.endswith("dot_general")
    scope = scope_of(op_name)
    if scope:
        return Part(*scope, product)
    if events >= steps:
        return Part("batch, loss and update", "step", product)
    return Part("sums, metrics and noise", "round", product)


def flops_by_scope(trainer: Trainer, num_classes: int) -> dict[tuple[str, str], int]:
    """FLOPs of the layers' products in one round of local training."""
    counted: collections.Counter[tuple[str, str]] = collections.Counter()
    (batch, steps) = arithmetic.coalition_steps(trainer)[
        2**trainer.program.plan.estimation.num_attributes - 1
    ]
    for stack, flops in arithmetic.step_flops(trainer, num_classes, batch).items():
        scope = scope_of(stack)
        if scope:
            counted[scope] += flops * steps * trainer.program.plan.cohort_size
    return dict(counted)


def traced_round(trainer: Trainer) -> tuple[float, dict[str, tuple[float, int]]]:
    """Traces the third round: its seconds, and event name -> (seconds, times)."""
    bench = measure.Run(trainer, trainer.initial_state())
    bench.call()
    bench.call()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            seconds = bench.call()
        (file,) = pathlib.Path(folder).rglob("*.xplane.pb")
        data = ProfileData.from_file(str(file))
        spent: dict[str, tuple[float, int]] = {}
        for plane in data.planes:
            for line in plane.lines:
                if line.name.startswith("python"):
                    continue
                for event in line.events:
                    before, times = spent.get(event.name, (0.0, 0))
                    spent[event.name] = (before + event.duration_ns / 1e9, times + 1)
    return seconds, spent


def profile(workload: workloads.Workload) -> dict[str, Any]:
    """The time of every part of a round, with FLOPs and rate of matrix products."""
    trainer = measure.make_trainer(workload)
    names = instructions(trainer.lower().compile().as_text() or "")
    seconds, spent = traced_round(trainer)
    chunks = -(
        -trainer.program.plan.cohort_size // trainer.program.plan.client_chunk_size
    )
    trained = arithmetic.coalition_steps(trainer).values()
    steps = chunks * sum(count for _, count in trained)
    by_part: dict[Part, float] = collections.defaultdict(float)
    for name, (time, times) in spent.items():
        if name in names:
            by_part[part_of(names[name], times, steps)] += time
    flops = flops_by_scope(trainer, workload.task.classes)
    rate = measure.gemm_gflops(4096)
    parts = []
    for part, time in sorted(by_part.items(), key=lambda item: -item[1]):
        row: dict[str, Any] = {**part._asdict(), "seconds": time}
        if part.product and (part.layer, part.direction) in flops:
            count = flops[part.layer, part.direction]
            row |= {"flops": count, "gflops": count / time / 1e9}
        parts.append(row)
    return {
        "work": workload.name,
        "command": f"python -m experiments.benchmark.profile --work={workload.name}",
        **environment(),
        "round_seconds": seconds,
        "attributed_seconds": sum(by_part.values()),
        "gemm_gflops": rate,
        "parts": parts,
    }


def draw(profiled: dict[str, Any], path: pathlib.Path) -> None:
    """Bars: seconds per round by layer and direction, matrix products marked."""
    by_label: dict[str, list[float]] = {}
    for part in profiled["parts"]:
        label = f"{part['layer']}, {part['direction']}"
        both = by_label.setdefault(label, [0.0, 0.0])
        both[0 if part["product"] else 1] += part["seconds"]
    labels = sorted(by_label, key=lambda label: sum(by_label[label]))
    products = [by_label[label][0] for label in labels]
    others = [by_label[label][1] for label in labels]

    def panel(axes: Any) -> None:
        blue, orange = style.numbered(1).color, style.numbered(5).color
        axes.barh(labels, products, color=blue, label="matrix products")
        axes.barh(
            labels,
            others,
            left=products,
            color=orange,
            hatch="////",
            edgecolor="white",
            linewidth=0,
            label="everything else",
        )
        axes.grid(visible=False, axis="y")
        device = profiled["device_kind"]
        axes.set_xlabel(f"seconds per round of {profiled['work']}, {device}")

    figures.panels(path, [panel], plot_height=0.9 + 0.14 * len(labels))


def main(_: list[str]) -> None:
    """Profiles the chosen workload."""
    values = flags.FLAGS
    flag_values.refuse_unknown("work", [values.work], workloads.NAMES[:-1])
    if jax.default_backend() != "cpu":
        raise ValueError("the profile needs a CPU: set JAX_PLATFORMS=cpu")
    result = profile(workloads.of_name(values.work)[-1])
    file = pathlib.Path(f"docs/results/profile_{values.work}.json")
    file.write_text(json.dumps(result, indent=1) + "\n")
    picture = pathlib.Path(f"docs/images/profile_{values.work}.svg")
    draw(result, picture)
    command.print_files([file, picture])


if __name__ == "__main__":
    command.run(main, __doc__)
