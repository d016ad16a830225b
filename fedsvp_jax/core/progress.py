"""The progress bar of a terminal."""

from typing import Any

from tqdm import tqdm


def progress_bar(*iterables: Any, **options: Any) -> tqdm:
    """tqdm's bar, in full where a terminal has 0 columns: it would draw nothing there.

    Pseudo-terminals of containers and scripts say so.
    """
    bar = tqdm(*iterables, **options)
    if getattr(bar, "ncols", None) in (0, -1):  # tqdm takes one off
        bar.ncols = bar.nrows = None
        bar.refresh()
    return bar
