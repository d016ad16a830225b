"""A picture of real images beside reconstructed ones, one row per class."""

import os
import pathlib

import numpy as np

from fedsvp_jax.structs import Array

_COLUMNS = 8


def write_grid(
    path: pathlib.Path,
    real: dict[int, Array],
    made: dict[int, Array],
    *,
    private: int,
    title: str,
) -> None:
    """Writes a PNG, whole or not at all: real images on the left, made on the right.

    Args:
      path: of the PNG.
      real: class -> images (n, height, width, channels) in [-1, 1]; the first are
        shown.
      made: class -> reconstructed images, likewise; its classes are the rows.
      private: the private class, which is marked.
      title: of the picture.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 0.5 * len(made) + 0.6), layout="constrained")
    figure.suptitle(title, fontsize=10)
    axes = figure.subplots(len(made), 2, squeeze=False)
    for row, label in enumerate(made):
        marked = " (private)" if label == private else ""
        axes[row, 0].set_ylabel(
            f"{label}{marked}", rotation=0, ha="right", va="center", fontsize=9
        )
        for column, images in enumerate((real[label], made[label])):
            shown = _strip(np.asarray(images[:_COLUMNS]))
            axes[row, column].imshow(
                shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest"
            )
            axes[row, column].set(xticks=[], yticks=[])
    for column, name in enumerate(("real", "reconstructed")):
        axes[0, column].set_title(name, fontsize=9)
    beside = path.with_name(path.name + ".tmp")
    figure.savefig(beside, format="png", dpi=150, metadata={"Software": None})
    os.replace(beside, path)


def _strip(images: np.ndarray) -> np.ndarray:
    """Images side by side in [0, 1]: (height, n * width) or (height, n * width, 3)."""
    missing = [(0, _COLUMNS - len(images))] + [(0, 0)] * 3
    padded = np.pad(images, missing, constant_values=1)
    joined = np.concatenate(list(padded), axis=1) / 2 + 0.5
    return joined[..., 0] if joined.shape[-1] == 1 else joined.clip(0, 1)
