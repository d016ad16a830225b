"""MNIST-format idx files, plain or gzipped: MNIST, Fashion-MNIST, EMNIST ByClass.

An idx file is a big-endian header and the values (LeCun's description of MNIST). The
header is two zero bytes, the type 0x08 for unsigned bytes, the number of axes and one
uint32 per axis. Its first four bytes are the magic number, 2051 for images and 2049
for labels.
"""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from fedsvp_jax.core.files import toml_beside

from ..dataset import Dataset, Part
from ..tables import files
from . import folders

_IMAGES, _LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
_FILES = toml_beside(__file__, "files.toml")


def read_idx(path: Path, *, num_axes: int) -> np.ndarray:
    """The uint8 array of one idx file; a file whose name ends in `.gz` is unpacked.

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: the file is not a gzip file, or its magic number or size is wrong.
    """
    raw = path.read_bytes()
    needed = 0x0800 + num_axes
    try:
        if path.suffix == ".gz":
            raw = gzip.decompress(raw)
        magic, *shape = struct.unpack_from(f">{1 + num_axes}I", raw)
        if magic != needed:
            raise ValueError(f"it starts with {magic}")
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * num_axes).reshape(shape)
    except (OSError, EOFError, ValueError, zlib.error, struct.error) as error:
        raise ValueError(
            f"{path} is damaged or no idx file ({error}); it must be an idx file with "
            f"the magic number {needed}, plain or packed by gzip"
        ) from error


def load_idx(name: str, data_dir: Path) -> Dataset:
    """`mnist`, `fashion_mnist` or `emnist` (ByClass) from their standard files.

    EMNIST's images are stored transposed; they are turned upright.

    Args:
      name: the data set.
      data_dir: the folder, or its parent folder.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file is damaged, or images and labels do not fit together.
    """
    place = _FILES[name]
    marker, num_classes = f"{place['train']}-{_IMAGES}", place["num_classes"]
    folder = folders.find_folder(data_dir, place["folders"], marker, data_set=name)

    def read(stem: str) -> Part:
        image_path, label_path = (
            path if path.is_file() else path.with_name(f"{path.name}.gz")
            for path in (folder / f"{stem}-{kind}" for kind in (_IMAGES, _LABELS))
        )
        images = read_idx(image_path, num_axes=3)
        labels = read_idx(label_path, num_axes=1)
        if len(images) != len(labels):
            raise ValueError(
                f"{label_path} holds {len(labels)} labels and {image_path} "
                f"{len(images)} images; the numbers must agree"
            )
        if name == "emnist":
            images = images.transpose(0, 2, 1)
        labels = files.check_labels(labels, num_classes, label_path)
        return np.ascontiguousarray(images)[..., None], labels

    train, test = read(place["train"]), read(place["test"])
    return Dataset(name, *train, *test, num_classes, public_test=True)
