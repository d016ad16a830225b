"""What a round sends: the formula against the compiled program's collectives."""

import math
import re
from typing import NamedTuple

import communication
import jax
import pytest
from small_runs import digits, small

from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import build

_GATHER = re.compile(r"= (\w+)\[([\d,]*)\]\S* all-gather\(")
_COLLECTIVE = re.compile(
    r"= \S+ (all-reduce|all-to-all|reduce-scatter|collective-permute)(-start)?\("
)
_BYTES = {"pred": 1, "s32": 4, "u32": 4, "f32": 4}


class Compiled(NamedTuple):
    """The collectives of a compiled program, by what they carry."""

    gathers: list[tuple[str, tuple[int, ...]]]  # dtype and shape of each result
    others: list[str]  # names of the collectives that are not gathers

    def gathered_bytes(self) -> int:
        """Bytes of the results of all gathers."""
        return sum(_BYTES[kind] * math.prod(shape) for kind, shape in self.gathers)


def compiled_collectives(program: str) -> Compiled:
    """The collectives in an optimised program's text; a loop's body counts once."""
    gathers = [
        (kind, tuple(int(length) for length in shape.split(",") if length))
        for kind, shape in _GATHER.findall(program)
    ]
    return Compiled(gathers, [name for name, _ in _COLLECTIVE.findall(program)])


def trainer_of(
    num_devices: int, cohort_size: int, chunk_size: int, *, cells: int = 1
) -> Trainer:
    """FedSVA on the MLP, one cell an ε."""
    configs = [
        small(
            cohort_size=cohort_size,
            client_chunk_size=chunk_size,
            epsilon=0.2 * (cell + 1),
        )
        for cell in range(cells)
    ]
    placement = Placement(num_devices=num_devices, sweep_devices=cells)
    return Trainer(build(configs, digits()), placement=placement)


@pytest.mark.parametrize(
    ("num_devices", "cohort_size", "chunk_size", "cells"),
    [
        (2, 5, 1, 1),
        pytest.param(3, 5, 2, 1, marks=pytest.mark.slow),
        pytest.param(4, 7, 1, 1, marks=pytest.mark.slow),
        (2, 5, 1, 2),
    ],
)
def test_the_formula_is_what_the_compiled_round_gathers(
    num_devices: int, cohort_size: int, chunk_size: int, cells: int
) -> None:
    """The program holds one turn of the loop: its uploads and scores to the byte.

    Of the records XLA may merge columns that are equal.
    """
    trainer = trainer_of(num_devices, cohort_size, chunk_size, cells=cells)
    found = compiled_collectives(trainer.lower().compile().as_text())
    expected = communication.gathered(trainer)
    num_parameters = 64 * 128 + 128 + 128 * 10 + 10
    rows = communication.rows_of(cohort_size, chunk_size, num_devices)
    turns = communication.turns(cohort_size, chunk_size, num_devices)
    test_turns = communication.turns(-(-355 // 250), 1, num_devices)
    assert expected.uploads == 4 * num_parameters * rows
    assert not found.others
    sent = found.gathered_bytes()
    least = expected.uploads // turns + expected.scores // test_turns
    assert least < sent <= least + expected.records // turns
    assert expected.records < 0.005 * expected.uploads
    model_rows = sum(
        Compiled([gather], []).gathered_bytes()
        for gather in found.gathers
        if gather[1][1:] in {(128, 64), (128,), (10, 128), (10,)}
    )
    assert model_rows == expected.uploads // turns


def test_one_device_sends_nothing() -> None:
    trainer = trainer_of(1, 3, 1)
    found = compiled_collectives(trainer.lower().compile().as_text())
    assert not found.gathers and not found.others
    assert communication.gathered(trainer).total == 0


def test_a_sum_over_devices_would_be_seen() -> None:
    mesh = Placement(num_devices=2).mesh()
    spec = jax.sharding.PartitionSpec("clients")
    summed = jax.shard_map(
        lambda x: jax.lax.psum(x, "clients"),
        mesh=mesh,
        in_specs=spec,
        out_specs=jax.sharding.PartitionSpec(),
    )
    text = jax.jit(summed).lower(jax.numpy.ones(4)).compile().as_text()
    assert compiled_collectives(text).others == ["all-reduce"]


@pytest.mark.parametrize(
    ("lanes", "chunk", "devices", "rows"),
    [(10, 1, 1, 10), (10, 1, 4, 12), (10, 1, 8, 16), (10, 10, 4, 40), (7, 2, 3, 12)],
)
def test_rows_are_filled_up_to_whole_chunks_on_every_device(
    lanes: int, chunk: int, devices: int, rows: int
) -> None:
    assert communication.rows_of(lanes, chunk, devices) == rows
