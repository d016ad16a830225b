"""Compiles one workload for an accelerator that is not there, and counts.

The compiler of the device is all that is used: nothing runs. `accelerators` is the
command.

libtpu writes beside every instruction how many cycles it estimates. From XLA:GPU come
the kernels, and the bytes that these read and write. All are counted along the
program's loops: a loop whose number of turns the program holds counts as often, any
other once. A row says how often a round begins one of those.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from fedsvp_jax.core.files import Record, toml_beside
from fedsvp_jax.core.tree import num_bytes
from fedsvp_jax.devices import target
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer

from . import arithmetic, measure, workloads

_FILE = toml_beside(__file__, "compiled.toml")


class Device(NamedTuple):
    """An accelerator, from its maker's data sheet."""

    platform: str
    topology: str
    memory: int  # bytes
    flops: float  # a second, of the products that the models use
    bandwidth: float  # bytes a second
    clock: float  # hertz


DEVICES = {name: Device(**sheet) for name, sheet in _FILE["devices"].items()}


def compiled(trainer: Trainer, device: Device) -> Any:
    """The trainer's rounds, compiled for one such device."""
    topology = topologies.get_topology_desc(
        platform=device.platform,
        topology_name=device.topology,
        **_FILE["topologies"].get(device.topology, {}),
    )
    exported = trainer.export()
    sharding = SingleDeviceSharding(topology.devices[0])
    shapes = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)
        for aval in exported.in_avals
    ]
    args, kwargs = jax.tree.unflatten(exported.in_tree, shapes)
    rounds = jax.jit(exported.call, donate_argnums=0).lower(*args, **kwargs)
    return rounds.compile(trainer.program.target.compiler_options)


_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) [^\n]*\{\n(.*?)^\}", re.M | re.S)
_INSTRUCTION = re.compile(
    r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([\w\-]+)\((.*?)\)(.*)", re.M
)
_ARRAY = re.compile(r"\b(?:pred|bf|[suf])(\d*)\[([\d,]*)\]")
_NAME = re.compile(r"%([\w.\-]+)")
_CALLED = re.compile(r"\b(\w+)=(\{[^}]*\}|%?[\w.\-]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_SCOPE = re.compile(r'op_name="([^"]*)"')
_KNOWN = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_BRANCHES = ("branch_computations", "true_computation", "false_computation")


class Instruction(NamedTuple):
    """One line of a computation in HLO."""

    name: str
    size: int  # bytes of the result
    kind: str
    operands: list[str]
    text: str  # of the operands and of what stands behind them

    @property
    def scope(self) -> str:
        """The name stack that it stems from."""
        return "".join(_SCOPE.findall(self.text)[:1])

    def called(self, *roles: str) -> list[str]:
        """The computations that it calls in these roles."""
        return [
            name
            for role, names in _CALLED.findall(self.text)
            if role in roles
            for name in re.findall(r"[\w.\-]+", names)
        ]


def _instructions(body: str) -> list[Instruction]:
    def size(arrays: str) -> int:
        return sum(
            math.prod(map(int, filter(None, shape.split(",")))) * int(bits or 8) // 8
            for bits, shape in _ARRAY.findall(arrays)
        )

    return [
        Instruction(name, size(result), kind, _NAME.findall(operands), operands + rest)
        for name, result, kind, operands, rest in _INSTRUCTION.findall(body)
    ]


def _read(argument: Instruction, fused: Sequence[Instruction]) -> int:
    """The bytes that a kernel reads of an argument: all, or what it takes by slices."""
    total = 0
    for user in (i for i in fused if argument.name in i.operands):
        if user.kind == "bitcast":
            total += _read(user, fused)
        elif user.kind in ("dynamic-slice", "slice", "gather"):
            total += user.size
        else:
            total += argument.size
    return min(total, argument.size)


def counted(text: str) -> Counter[str]:
    """The work in the body of the loop over rounds, without the test's score.

    Cycles, kernels and bytes with the turns of every loop multiplied in; and how often
    a round begins a loop whose turns are data, which counts as one turn.
    """
    computations = {
        name: _instructions(body) for name, body in _COMPUTATION.findall(text)
    }

    def turns_of(loop: Instruction) -> int | None:
        if trip_counts := _KNOWN.findall(loop.text):
            return int(trip_counts[0])
        (condition,) = loop.called("condition")
        numbers = [
            int(number)
            for i in computations[condition]
            if i.kind == "constant"
            for number in re.findall(r"^\d+(?![\d.])", i.text)
        ]
        return numbers[0] if len(numbers) == 1 else None

    def bytes_read(kernel: Instruction, sizes: Mapping[str, int]) -> int:
        if fusions := kernel.called("calls"):
            fused = computations[fusions[0]]
            return sum(_read(x, fused) for x in fused if x.kind == "parameter")
        return sum(sizes[operand] for operand in kernel.operands)

    def count(name: str) -> Counter[str]:
        total: Counter[str] = Counter()
        sizes = {i.name: i.size for i in computations[name]}
        for i in computations[name]:
            total["cycles"] += sum(map(int, _CYCLES.findall(i.text)[:1]))
            if i.kind in _FILE["instructions"]["kernels"]:
                total.update(kernels=1, moved_bytes=i.size + bytes_read(i, sizes))
            if "/score" in i.scope:
                continue
            if i.kind == "while":
                times = turns_of(i)
                total["watched_loops"] += times is None
                for cost, number in count(*i.called("body")).items():
                    total[cost] += (times or 1) * number
            roles = (*_BRANCHES, "to_apply") if i.kind == "call" else _BRANCHES
            # Every place of a cohort is taken, so the largest branch counts.
            total.update(
                max(map(count, i.called(*roles)), key=Counter.total, default={})
            )
        return total

    (rounds,) = (
        i
        for instructions in computations.values()
        for i in instructions
        if i.kind == "while" and re.search(r"rounds\)?/while$", i.scope)
    )
    return count(*rounds.called("body"))


def row(device_name: str, name: str, index: int) -> Record:
    """The row's keys, which docs/results/performance.md explains.

    SWEEP is W2 with 25 seeds. Where a loop's turns are data, cycles, kernels and bytes
    are too few, and no share of the limit is given.
    """
    device = DEVICES[device_name]
    trainer = measure.make_trainer(
        workloads.of_name(name)[index],
        Placement(rounds_per_call=2),  # one alone has no loop
        target=target.named_target(device.platform, device.memory),
        num_seeds=25 if name == workloads.SWEEP else 1,
    )
    start = time.perf_counter()
    program = compiled(trainer, device)
    seconds = time.perf_counter() - start
    plan, memory = trainer.program.plan, program.memory_analysis()
    totals = counted(program.as_text())
    copies = 2 * plan.cohort_size * num_bytes(trainer.arguments()[0].params)
    limit = max(
        len(trainer.program.configs)
        * sum(arithmetic.round_flops(trainer))
        / device.flops,
        copies / device.bandwidth,
    )
    tpu = device.platform == "tpu"
    return {
        "device": device_name,
        "work": name,
        "index": index,
        "mechanism": plan.mechanism,
        "num_attributes": plan.estimation.num_attributes,
        "shapley": plan.estimation.estimator,
        "round_cycles": totals["cycles"] if tpu else None,
        "limit_share": limit * device.clock / totals["cycles"]
        if tpu and not totals["watched_loops"]
        else None,
        "round_kernels": totals["kernels"],
        "moved_bytes": None if tpu else totals["moved_bytes"],
        "watched_loops": totals["watched_loops"],
        "limit_seconds": limit,
        "bytes": memory.argument_size_in_bytes + memory.temp_size_in_bytes,
        "compile_seconds": round(seconds, 1),
    }
