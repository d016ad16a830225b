"""The progress bar of a terminal."""

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
