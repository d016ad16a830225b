"""The progress bar of a terminal."""

import os
import sys
from typing import Any

from tqdm import tqdm


def progress_bar(*iterables: Any, **options: Any) -> tqdm:
    """tqdm's bar on standard error, 80 columns wide where a terminal tells no width.

    Pseudo-terminals of containers and scripts say 0 columns, in which tqdm draws
    nothing.
    """
    try:
        columns, lines = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):  # no terminal
        columns = lines = 0
    return tqdm(*iterables, ncols=columns or 80, nrows=lines or 24, **options)
