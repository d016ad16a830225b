"""The progress bar of a terminal."""

import io
import os

import pytest

from fedsvp_jax.core.progress import progress_bar


@pytest.mark.hole
def test_a_bar_is_drawn_in_a_pseudo_terminal_without_a_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In 0 columns, which containers say, nothing was drawn."""
    reader, writer = os.openpty()
    with os.fdopen(writer, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        with progress_bar(total=2, unit="round", disable=None, file=terminal) as bar:
            assert bar.total == 2
        drawn = os.read(reader, 1000).decode()
    os.close(reader)
    assert "0/2" in drawn and "round/s" in drawn


@pytest.mark.hole
def test_where_there_is_no_terminal_every_tenth_is_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A redirected run of an hour wrote nothing before its end."""
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    with progress_bar(total=50, unit="round", desc="gaussian", disable=False) as bar:
        for _ in range(50):
            bar.update(1)
    lines = [line.strip() for line in screen.getvalue().splitlines() if line.strip()]
    assert [line.split(",")[0] for line in lines[:3]] == [
        f"gaussian: round {done} of 50" for done in (0, 5, 10)
    ]
    assert 10 <= len(lines) <= 12
