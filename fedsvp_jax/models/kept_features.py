"""Images turned into features once, when a data set is loaded.

Every mechanism, attack and ledger then works on vectors as on any other data set. The
features of an example depend on that example and on public constants alone, so to
replace a record of the images is to replace a record of the features.
"""

import dataclasses
import functools
import glob
import hashlib
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from fedsvp_jax.core import files
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.core.structs import Array
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.datasets import embedded

from . import scattering
from .batches import in_batches

_BATCH = 100  # images in one call
_LARGE = 2**30  # bytes of a file beyond which a warning comes before it is written


class Extractor(NamedTuple):
    """A function from images to features.

    Attributes:
      name: of the features and of all that decides their numbers; another name is
        another file.
      apply: (n, H, W, C) uint8 or float32 -> (n, f) float32, compiled.
    """

    name: str
    apply: Callable[[Array], Array]


def of_images(model: str, dataset: Dataset, folder: str | Path | None) -> Dataset:
    """The data set with features in the place of its images.

    They are computed once and kept as a file, named by sums over the images and over
    itself. A later call reads that file and gives the same bits.

    Args:
      model: one of `settings.FEATURE_MODELS`.
      dataset: of images.
      folder: where the features are kept; None: fedsvp_jax/features in the user's
        cache.

    Raises:
      ValueError: the model cannot take these images, or the kept file is damaged.
      OSError: the folder cannot be written.
    """
    extractor = make_extractor(model, dataset.example_shape)
    digest = hashlib.sha256(extractor.name.encode())
    for images in (dataset.train_inputs, dataset.test_inputs):
        digest.update(repr((images.dtype.str, images.shape)).encode())
        digest.update(np.ascontiguousarray(images).data)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    place = Path(folder or caches / "fedsvp_jax" / "features").expanduser()
    stem = f"{dataset.name.replace(':', '_')}-{digest.hexdigest()[:16]}"
    existing = next(place.glob(f"{glob.escape(stem)}-*.npy"), None)
    path = existing or _compute(extractor, dataset, place / stem)
    if not path.stem.endswith(files.sha256(path)[:16]):
        raise ValueError(
            f"{path} is damaged (it differs from the SHA-256 in its name); delete it, "
            "and the features are computed again"
        )
    features = np.load(path, mmap_mode="r", allow_pickle=False)
    count = len(dataset.train_labels)
    return dataclasses.replace(
        dataset, train_inputs=features[:count], test_inputs=features[count:]
    )


def computed(model: str, images: np.ndarray) -> np.ndarray:
    """(n, f) float32: the features of some images, which are not kept.

    Raises:
      ValueError: as `make_extractor`.
    """
    apply = make_extractor(model, images.shape[1:]).apply
    return np.concatenate(list(in_batches(apply, images, _BATCH)))


def make_extractor(model: str, image_shape: tuple[int, ...]) -> Extractor:
    """The features that the model takes, of images of this shape.

    Raises:
      ValueError: the images have a shape that the features are not made for.
    """
    height, width, _ = image_shape
    smallest, multiple = scattering.LEAST_SIDE, scattering.STRIDE
    if height != width or height < smallest or height % multiple:
        raise ValueError(
            f"model {model} takes square images whose side is a multiple of {multiple} "
            f"and at least {smallest}, got {height}×{width}"
        )
    name = f"scattering J={scattering.SCALES} L={scattering.ANGLES}"
    if model == "scatter_channels_linear":
        constants = scattering.channel_constants(embedded.photographs(), height)
        by_channel = functools.partial(scattering.channel_features, constants)
        return Extractor(f"{name} channels", jax.jit(by_channel))
    name += f" groups={scattering.GROUPS}"
    return Extractor(name, jax.jit(scattering.scattering_features))


def _compute(extractor: Extractor, dataset: Dataset, path: Path) -> Path:
    """Writes (training + test examples, f) float32; an interrupted file has no name.

    Its name is the path's with its own digest.
    """
    parts = (dataset.train_inputs, dataset.test_inputs)
    count = sum(map(len, parts))
    example = jax.ShapeDtypeStruct((_BATCH, *dataset.example_shape), parts[0].dtype)
    width = jax.eval_shape(extractor.apply, example).shape[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    size, room = 4 * width * count, shutil.disk_usage(path.parent).free
    if size > room:
        raise OSError(
            f"features_dir {path.parent} has {room / 2**30:.1f} GiB free, and the "
            f"features of {dataset.name} take {size / 2**30:.1f}; name another folder"
        )
    if size > _LARGE:
        warnings.warn(
            f"features of {dataset.name} are computed once and kept: "
            f"{size / 2**30:.1f} GiB in {path.parent} (--features_dir names another "
            "folder)",
            stacklevel=1,
        )
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    bar = progress_bar(
        total=count,
        unit="image",
        desc=f"{extractor.name} features of {dataset.name}, kept in {path.parent}",
    )
    try:
        written = np.lib.format.open_memmap(
            beside, mode="w+", dtype=np.float32, shape=(count, width)
        )
        start = 0
        for images in parts:
            for features in in_batches(extractor.apply, images, _BATCH):
                written[start : start + len(features)] = features
                start += len(features)
                bar.update(len(features))
        written.flush()
        return beside.rename(f"{path}-{files.sha256(beside)[:16]}.npy")
    finally:
        bar.close()
        beside.unlink(missing_ok=True)
