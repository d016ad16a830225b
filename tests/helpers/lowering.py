"""What a round lowered for CUDA and TPU holds: collectives, float64, calls of the host.

JAX lowers a program for a device that is not there. It does not compile it, so nothing
here says how fast the device is. tests/experiments/benchmark/test_lowering.py counts
every mechanism's round; docs/results/scaling.md has the counts of a larger one.
"""

import math
import re
from typing import NamedTuple

from fedsvp_jax.engine.trainer import Trainer

PLATFORMS = ("cuda", "tpu")

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
