"""A figure with rows of small images: a name per row, a caption per image."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np


class PictureRow(NamedTuple):
    """One row of the figure."""

    name: str
    images: Sequence[np.ndarray]  # each (H, W, C) in [0, 1], C 1 or 3
    captions: Sequence[str]  # one per image


def picture_table(path: str | Path, rows: Sequence[PictureRow]) -> Path:
    """Draws the rows, flush left; returns the figure's path."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = max(len(row.images) for row in rows)
    figure = Figure(figsize=(2.2 + columns, 0.2 + 1.15 * len(rows)))
    FigureCanvasAgg(figure)
    grid = figure.subplots(
        len(rows),
        columns,
        squeeze=False,
        gridspec_kw={
            "left": 2.2 / (2.2 + columns),
            "right": 0.99,
            "bottom": 0.01,
            "top": 1 - 0.2 / (0.2 + 1.15 * len(rows)),
            "hspace": 0.35,
        },
    )
    for axes in grid.ravel():
        axes.set_axis_off()
    for line, row in zip(grid, rows, strict=True):
        line[0].text(
            -0.15,
            0.5,
            row.name,
            transform=line[0].transAxes,
            ha="right",
            va="center",
            fontsize=8,
        )
        cells = zip(line, row.images, row.captions, strict=False)
        for axes, image, caption in cells:
            axes.imshow(np.squeeze(image), cmap="gray", vmin=0, vmax=1)
            axes.set_title(caption, fontsize=7, pad=2)
    figure.savefig(path, dpi=120)
    return Path(path)
