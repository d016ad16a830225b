"""The progress bar of a terminal, or about ten lines where there is none."""

import sys
from typing import Any

from tqdm import tqdm

_LINES = {
    "mininterval": 0,
    "maxinterval": 1e9,
    "bar_format": "{desc}: {unit} {n} of {total}, {elapsed}<{remaining}{postfix}\n",
}


def progress_bar(*iterables: Any, **options: Any) -> tqdm:
    """tqdm's bar, in full where a terminal has 0 columns: it would draw nothing there.

    Pseudo-terminals of containers and scripts say so. Where standard error is no
    terminal, and `total` tells what a tenth is, it is a line for about every tenth.
    """
    if "total" in options and not sys.stderr.isatty():
        options |= _LINES | {"miniters": options["total"] // 10}
    bar = tqdm(*iterables, **options)
    if getattr(bar, "ncols", None) in (0, -1):  # tqdm takes one off
        bar.ncols = bar.nrows = None
        bar.refresh()
    return bar
