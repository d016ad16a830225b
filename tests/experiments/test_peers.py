"""`experiments.bench.peers`: the table is what the rows say."""

import pathlib

import pytest

from experiments.bench import peers


def row(turn: int, work: str, who: str, seconds: float, **more: float) -> dict:
    return {
        "turn": turn,
        "work": work,
        "who": who,
        "seconds_median": seconds,
        "compile_seconds": 1.0,
        "peak_mb": 10.0,
        **more,
    }


ROWS = [
    row(1, "W2", peers.OURS, 0.01),
    row(1, "W2", "pfl", 0.1),
    row(2, "W2", peers.OURS, 0.02),
    row(2, "W2", "pfl", 0.1, others_cores=0.5),
]


def test_ratios_are_those_of_the_same_turn_and_disturbed_rows_say_so() -> None:
    lines = peers.table(ROWS).splitlines()[2:]
    assert lines[0].startswith(f"| W2 | {peers.OURS} | 0.015 (0.01 to 0.02) | 1 |")
    assert lines[1].startswith(
        "| W2 | pfl (disturbed) | 0.1 (0.1 to 0.1) | 10.00, 5.00"
    )


def test_only_what_stands_between_the_markers_is_rewritten(
    tmp_path: pathlib.Path,
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{peers.BEGIN}\nold\n{peers.END}\nafter\n")
    peers.rewrite(page, ROWS)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "old" not in text and "pfl" in text
    peers.rewrite(page, ROWS)
    assert page.read_text() == text
    page.write_text("no markers")
    with pytest.raises(ValueError, match="has no lines"):
        peers.rewrite(page, ROWS)
