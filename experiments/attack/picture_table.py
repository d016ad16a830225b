"""A figure with rows of small images: a name per row, a caption per image."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np


def picture_table(
    path: Path, rows: Mapping[str, Sequence[tuple[np.ndarray, str]]]
) -> None:
    """Draws the rows, flush left.

    Args:
      path: where to write.
      rows: name -> images (H, W, C) in [0, 1], C 1 or 3, each with its caption.
    """
    from matplotlib.figure import Figure

    columns = max(map(len, rows.values()))
    figure = Figure((2.2 + columns, 0.2 + 1.15 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes in grid.ravel():
        axes.set(xticks=[], yticks=[], frame_on=False)
    for line, (name, pictures) in zip(grid, rows.items(), strict=True):
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
        for axes, (image, caption) in zip(line, pictures, strict=False):
            axes.imshow(np.squeeze(image), cmap="gray", vmin=0, vmax=1)
            axes.set_title(caption, fontsize=7, pad=2)
    figure.savefig(path, dpi=120)
