"""Where a round's time goes: one traced round of a work, by layer and direction.

  python -m experiments.benchmark.profile --work=W1

Writes profile_W1.json to --results_dir and profile_W1.svg to --images_dir. XLA's
thunks are timed by JAX's profiler and named by their instructions' op_name, which
holds the model's layers; FLOPs are those of the layers' matrix products. Tracing costs
a few per cent. On a CPU only: a GPU's events carry other names.
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

from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import build
from fedsvp_jax.run.environment import environment

from .. import command
from . import arithmetic, measure, works

flags.DEFINE_string("work", "W1", "Name of a work that `experiments.benchmark` lists.")
flags.DEFINE_string("results_dir", "docs/results", "Folder of the json file.")
flags.DEFINE_string("images_dir", "docs/images", "Folder of the picture.")

_CONTAINERS = ("while", "call", "conditional", "tuple", "async")
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%(\S+) = (?:\([^=]*\)|\S+) ([\w-]+)\(")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_SCOPE = re.compile(r"(transpose\()?jvp\(\w+\)\)?/([A-Z]\w*)")


class Part(NamedTuple):
    """What a thunk works for."""

    layer: str
    direction: str  # forward | backward | step | round
    product: bool


def scope_of(name: str) -> tuple[str, str] | None:
    """`(layer, direction)` of an op_name or name stack; None outside a model."""
    found = _SCOPE.search(name)
    if not found:
        return None
    return found[2], "backward" if found[1] else "forward"


def instructions(hlo: str) -> dict[str, str]:
    """Instruction name -> op_name of a compiled program, loops and calls left out."""
    names = {}
    for line in hlo.splitlines():
        found = _INSTRUCTION.match(line)
        if found and found[2] not in _CONTAINERS:
            op = _OP_NAME.search(line)
            names[found[1]] = op[1] if op else ""
    return names


def part_of(op_name: str, events: int, steps: int) -> Part:
    """The part of an instruction that ran `events` times in `steps` trips."""
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
        2**trainer.program.plan.num_attributes - 1
    ]
    for stack, flops in arithmetic.step_flops(trainer, num_classes, batch).items():
        scope = scope_of(stack)
        if scope:
            counted[scope] += flops * steps * trainer.program.plan.cohort_size
    return dict(counted)


def traced_round(trainer: Trainer) -> tuple[float, dict[str, tuple[float, int]]]:
    """Seconds of one round after two others, and by event name (seconds, times)."""
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


def profile(work: works.Work) -> dict[str, Any]:
    """Seconds by part, with the FLOPs and the rate of the parts that are products."""
    dataset = works.make_dataset(work)
    trainer = Trainer(build([works.make_config(work)], dataset), placement=Placement())
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
    flops = flops_by_scope(trainer, dataset.num_classes)
    rate = measure.gemm_gflops(4096)
    parts = []
    for part, time in sorted(by_part.items(), key=lambda item: -item[1]):
        row: dict[str, Any] = {**part._asdict(), "seconds": time}
        if part.product and (part.layer, part.direction) in flops:
            count = flops[part.layer, part.direction]
            row |= {"flops": count, "gflops": count / time / 1e9}
        parts.append(row)
    return {
        "work": work.name,
        "command": f"python -m experiments.benchmark.profile --work={work.name}",
        **environment(),
        "round_seconds": seconds,
        "attributed_seconds": sum(by_part.values()),
        "gemm_gflops": rate,
        "parts": parts,
    }


def draw(found: dict[str, Any], path: pathlib.Path) -> None:
    """Bars: seconds of a round by layer and direction, products apart from the rest."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    by_label: dict[str, list[float]] = {}
    for part in found["parts"]:
        label = f"{part['layer']}, {part['direction']}"
        both = by_label.setdefault(label, [0.0, 0.0])
        both[0 if part["product"] else 1] += part["seconds"]
    labels = sorted(by_label, key=lambda label: sum(by_label[label]))
    figure, axes = pyplot.subplots(figsize=(8, 0.35 * len(labels) + 1.2))
    products = [by_label[label][0] for label in labels]
    rest = [by_label[label][1] for label in labels]
    axes.barh(labels, products, color="#0072B2", label="matrix products")
    axes.barh(labels, rest, left=products, color="#E69F00", label="everything else")
    axes.set_xlabel(f"seconds of a round of {found['work']}, {found['device_kind']}")
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main(_: list[str]) -> None:
    """Profiles the work that the flags name."""
    values = flags.FLAGS
    found = works.find(values.work)
    if not found:
        raise ValueError(
            f"work must be one of {', '.join(works.NAMES[:-1])}, got {values.work!r}"
        )
    if jax.default_backend() != "cpu":
        raise ValueError("the profile needs JAX on a CPU: set JAX_PLATFORMS=cpu")
    result = profile(found[-1])
    for folder in (values.results_dir, values.images_dir):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    file = pathlib.Path(values.results_dir) / f"profile_{values.work}.json"
    file.write_text(json.dumps(result, indent=1) + "\n")
    picture = pathlib.Path(values.images_dir) / f"profile_{values.work}.svg"
    draw(result, picture)
    print(f"files:\n  {file}\n  {picture}")


if __name__ == "__main__":
    command.run(main, __doc__)
