"""A figure with rows of small images, and a name per row."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np


def picture_table(path: Path, rows: Mapping[str, np.ndarray]) -> None:
    """Draws the rows, flush left.

    Args:
      path: where to write.
      rows: name -> (n, H, W, C) images in [0, 1], C 1 or 3.
    """
    from matplotlib.figure import Figure

    columns = max(map(len, rows.values()))
    figure = Figure((2.2 + columns, 0.2 + 1.05 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes in grid.ravel():
        axes.set(xticks=[], yticks=[], frame_on=False)
    for line, (name, images) in zip(grid, rows.items(), strict=True):
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
        for axes, image in zip(line, images, strict=False):
            axes.imshow(np.squeeze(image), cmap="gray", vmin=0, vmax=1)
    figure.savefig(path, dpi=120)
