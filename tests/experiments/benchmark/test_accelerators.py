"""Programs of accelerators: what is counted in them, and that they compile."""

from types import SimpleNamespace
from typing import Any

import pytest

from experiments.benchmark import accelerators, compiled

PROGRAM = """
%x (a: f32[100,3], b: bf16[3]) -> f32[3] {
  %a = f32[100,3]{1,0} parameter(0)
  %b = bf16[3]{0} parameter(1)
  %c = f32[300]{0} bitcast(%a)
  %d = f32[3]{0} dynamic-slice(%c, %i), dynamic_slice_sizes={3}
  %e = f32[3]{0} convert(%b)
  ROOT %y = f32[3]{0} add(%d, %e)
}
%step (p: s32[]) -> s32[] {
  %q = f32[100,3]{1,0} get-tuple-element(%p), index=0
  %r = bf16[3]{0} get-tuple-element(%p), index=1
  %f = f32[3]{0} fusion(%q, %r), calls=%x, backend_config={"estimated_cycles":"30"}
}
%few (p: s32[]) -> pred[] {
  %c = s32[] constant(4)
}
%asked (p: s32[]) -> pred[] {
  %less = pred[] compare(%p, %q), direction=LT
}
%turn (p: s32[]) -> s32[] {
  %w = s32[] while(%p), condition=%few, body=%step, metadata={op_name="steps/while"}
  %g = s32[] copy(%w), backend_config={"estimated_cycles":"5"}
}
%round (p: s32[]) -> s32[] {
  %v = s32[] while(%p), condition=%asked, body=%turn, metadata={op_name="a/turns/while"}
  %t = s32[] while(%p), condition=%asked, body=%turn, metadata={op_name="a/score/while"}
}
ENTRY %main (p: s32[]) -> s32[] {
  %u = s32[] while(%p), condition=%few, body=%round, metadata={op_name="rounds/while"}
}
"""


def test_work_is_counted_with_the_turns_of_loops_and_without_the_score() -> None:
    # Of the loop whose turns are data one turn: a kernel in four steps, which reads a
    # slice of three numbers and the other argument and writes the result; and a copy
    # of 4 bytes.
    assert compiled.counted(PROGRAM) == {
        "cycles": 4 * 30 + 5,
        "kernels": 4 + 1,
        "moved_bytes": 4 * (3 * 4 + 3 * 2 + 3 * 4) + 2 * 4,
        "watched_loops": 1,
    }


@pytest.mark.hole
@pytest.mark.parametrize("turns", ["asked", "few"])
def test_a_count_that_leaves_turns_out_gives_no_share(monkeypatch, turns: str) -> None:
    """The share of a round whose loop counted once was as many times too large."""
    memory = SimpleNamespace(argument_size_in_bytes=1, temp_size_in_bytes=2)
    program = SimpleNamespace(
        as_text=lambda: PROGRAM.replace("asked, body=%turn", f"{turns}, body=%turn"),
        memory_analysis=lambda: memory,
    )
    monkeypatch.setattr(compiled, "compiled", lambda *_: program)
    row = compiled.row("v5e", "W2", 0)
    assert row["watched_loops"] == (turns == "asked")
    assert (row["limit_share"] is None) == (turns == "asked")
    assert row["round_cycles"] == (125 if turns == "asked" else 4 * 125)


def test_works_have_all_their_rows_on_every_device() -> None:
    both = accelerators.tasks(["v5e", "h100"], ["SWEEP", "PE-W2"])
    assert both[:2] == [("v5e", "SWEEP", 0), ("v5e", "PE-W2", 0)]
    assert len(both) == 2 * (1 + 6)


def test_a_cost_more_than_a_tenth_above_the_kept_one_is_named() -> None:
    kept: dict[str, Any] = {"device": "v5e", "work": "W1", "index": 0}
    kept |= dict.fromkeys(accelerators.COSTS, 100) | {"round_kernels": None}
    assert accelerators.worse(kept | {"bytes": 110}, kept) == []
    assert accelerators.worse(kept | {"bytes": 111}, kept) == [
        "v5e W1 0: bytes 111 after 100"
    ]


@pytest.mark.slow
@pytest.mark.skipif(
    not accelerators.COMPILERS.is_dir(), reason="needs `make accelerators`"
)
@pytest.mark.parametrize("device", compiled.DEVICES)
def test_a_round_compiles_for_accelerators(device: str) -> None:
    row = accelerators.compile_row(device, "W2", 0)
    assert 0 < row["bytes"] < compiled.DEVICES[device].memory
    assert row["round_kernels" if device == "h100" else "round_cycles"] > 0
    assert row["watched_loops"] == 0
