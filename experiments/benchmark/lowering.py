"""Lowers every mechanism's round for CUDA and TPU on a CPU, and counts what is in it.

    python -m experiments.benchmark.lowering

writes docs/results/lowering.json, shown by docs/results/scaling.md. The round is that
of the benchmark's W1 (LEAF CNN) with 16 clients on 8 devices, two side by side on each;
those of FedSVA and FedSDP have two attributes. JAX lowers a program for a device that
is not there. It does not compile it, so nothing here says how fast the device is.
"""

import json
import math
import pathlib
import re
from typing import Any, NamedTuple

import jax

from fedsvp_jax import mechanisms
from fedsvp_jax.devices.target import named
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.run.environment import environment

from .. import command
from . import communication, workloads
from .measure import make_trainer
from .workloads import Workload

RESULTS = pathlib.Path("docs/results/lowering.json")
PLATFORMS = ("cuda", "tpu")
_NUM_DEVICES = 8
_SIDE_BY_SIDE = 2

_OPERATION = re.compile(r"stablehlo\.(\w+)")
_FLOAT64 = re.compile(r"tensor<(?:[\dx?]*x)?(?:f64|complex<)")
_CALLED = re.compile(r"stablehlo\.custom_call @(\w+)|call_target_name = \"(\w+)\"")
_GROUPED = re.compile(r"(?:feature|batch)_group_count = (\d+)")
_GATHER = re.compile(r"\"stablehlo\.all_gather\".*-> tensor<([\dx]+)x(\w+)>")
_COLLECTIVES = {
    "all_reduce",
    "all_to_all",
    "collective_broadcast",
    "collective_permute",
    "reduce_scatter",
}
_HOST = {"infeed", "outfeed", "send", "recv"}
_BYTES = {"i1": 1, "i32": 4, "ui32": 4, "f32": 4}


class Lowered(NamedTuple):
    """What a program for one platform holds; a loop's body counts once."""

    gathers: int  # arrays that all devices gather
    gathered_bytes: int  # of the results of all gathers, on every device
    other_collectives: int
    float64: int  # arrays of float64 or complex numbers
    host_calls: int  # callbacks to Python, and transfers to the host
    grouped_convolutions: int


def count(program: str) -> Lowered:
    """Counts in the text of a program in StableHLO."""
    gathers = _GATHER.findall(program)
    operations = _OPERATION.findall(program)
    called = ["".join(names) for names in _CALLED.findall(program)]
    return Lowered(
        gathers=len(gathers),
        gathered_bytes=sum(
            _BYTES[kind] * math.prod(map(int, shape.split("x")))
            for shape, kind in gathers
        ),
        other_collectives=sum(name in _COLLECTIVES for name in operations),
        float64=len(_FLOAT64.findall(program)),
        host_calls=sum(name in _HOST for name in operations)
        + sum("callback" in name for name in called),
        grouped_convolutions=sum(int(n) > 1 for n in _GROUPED.findall(program)),
    )


def lowered(trainer: Trainer) -> Lowered:
    """The trainer's rounds for its program's target."""
    return count(trainer.export().mlir_module())


def row(mechanism: str) -> dict[str, Any]:
    """A mechanism's counts on both platforms, and the bytes of each device."""
    estimates = mechanism in ("fedsva", "fedsdp")
    workload = Workload(
        "LOWERING",
        workloads.LEAF,
        mechanism,
        num_attributes=2 if estimates else 1,
        l2_norm_clip=1.0,
        cohort_size=_NUM_DEVICES * _SIDE_BY_SIDE,
    )
    trainers = {
        platform: make_trainer(
            workload,
            Placement(num_devices=_NUM_DEVICES),
            named(platform),
            client_chunk_size=_SIDE_BY_SIDE,
            num_rounds=100,  # some mechanisms' noise follows the round
            eval_every=100,
        )
        for platform in PLATFORMS
    }
    trainer = trainers[PLATFORMS[0]]
    state, _, data, *_ = trainer.arguments()
    return {
        "mechanism": mechanism,
        "num_attributes": workload.num_attributes,
        "num_parameters": _nbytes(state.params) // 4,
        "cohort_size": workload.cohort_size,
        "num_devices": _NUM_DEVICES,
        "state_bytes": _nbytes(state),
        "data_bytes": _nbytes(data[:2]),
        "gathered_bytes_per_round": communication.gathered(trainer).total,
        "platforms": {
            platform: lowered(one)._asdict() for platform, one in trainers.items()
        },
    }


def _nbytes(tree: Any) -> int:
    return sum(
        math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)
    )


def main(_: list[str]) -> None:
    """Lowers every mechanism's round, and writes the file."""
    jax.config.update("jax_num_cpu_devices", _NUM_DEVICES)
    rows = [row(mechanism) for mechanism in mechanisms.mechanism_names()]
    result = {"environment": environment(), "rows": rows}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    command.print_files([RESULTS])


if __name__ == "__main__":
    command.run(main, __doc__)
