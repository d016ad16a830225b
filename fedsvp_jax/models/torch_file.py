"""Reads what `torch.save` wrote, without PyTorch and without running code from it.

Such a file is a pickled dictionary, which names functions to be called, and the numbers
beside it. The reader gives a meaning of its own to the few names of which a dictionary
of tensors is made, and refuses every other one, so that nothing the file names is
imported or called (Python's documentation of pickle, "Restricting Globals"). Source of
the layout: torch/serialization.py, PyTorch 2.
"""

import collections
import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

_MAGIC = 0x1950A86A20F9469CFC6C
_TYPES: dict[str, np.dtype] = {
    "DoubleStorage": np.dtype("<f8"),
    "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": np.dtype("<u2"),  # the upper half of a float32
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"),
    "CharStorage": np.dtype("i1"),
    "ByteStorage": np.dtype("u1"),
    "BoolStorage": np.dtype("?"),
}


class _Tensor(NamedTuple):
    """Where a tensor's numbers lie."""

    storage: tuple[Any, ...]  # ("storage", type, key, device, count, ...)
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch_file(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a state dict, as float32.

    Args:
      path: a file of `torch.save`, in its zip format or the older one.

    Raises:
      ValueError: the file is damaged or holds anything other than named tensors.
    """
    try:
        if zipfile.is_zipfile(path):
            return _read_zip(path)
        return _read_old(path)
    except Exception as error:  # pickle answers damage with some ten types of error
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise ValueError(f"{path} is not a file of plain tensors: {error}") from error


def _read_zip(path: Path) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        (index,) = (n for n in names if n.count("/") == 1 and n.endswith("/data.pkl"))
        top = index.removesuffix("data.pkl")
        order = f"{top}byteorder"
        if order in names and archive.read(order) != b"little":
            raise ValueError("its numbers are big-endian")
        held = _build(io.BytesIO(archive.read(index)))
        return _tensors(held, lambda storage: archive.read(f"{top}data/{storage[2]}"))


def _read_old(path: Path) -> dict[str, np.ndarray]:
    with path.open("rb") as file:
        if _build(file) != _MAGIC:
            raise ValueError("it does not begin as such a file does")
        _build(file)  # the version of the protocol
        if not _build(file)["little_endian"]:
            raise ValueError("its numbers are big-endian")
        held, keys = _build(file), _build(file)
        sizes = {t.storage[2]: _size_of(t.storage) for t in _listed(held).values()}
        numbers = {}
        for key in keys:
            file.seek(8, io.SEEK_CUR)  # the count, which the index holds too
            numbers[key] = file.read(sizes[key])
        return _tensors(held, lambda storage: numbers[storage[2]])


def _size_of(storage: tuple[Any, ...]) -> int:
    return int(storage[4]) * _TYPES[storage[1]].itemsize


def _listed(held: Any) -> dict[str, _Tensor]:
    if not isinstance(held, dict) or not all(
        isinstance(name, str) and isinstance(value, _Tensor)
        for name, value in held.items()
    ):
        raise ValueError("it must hold a state dict: tensors by name")
    return held


def _tensors(
    held: Any, read: Callable[[tuple[Any, ...]], bytes]
) -> dict[str, np.ndarray]:
    """The arrays, copied out of the storages that `read` gives."""
    found = {}
    for name, tensor in _listed(held).items():
        kind = _TYPES[tensor.storage[1]]
        numbers = np.frombuffer(read(tensor.storage), kind)
        last = sum(
            (n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True)
        )
        size = int(np.prod(tensor.shape, dtype=np.int64))
        within = tensor.offset >= 0 and tensor.offset + last < len(numbers)
        if min((0, *tensor.shape, *tensor.strides)) < 0 or (size and not within):
            raise ValueError(f"{name} lies outside of its numbers")
        array = np.lib.stride_tricks.as_strided(
            numbers[tensor.offset :] if size else numbers[:0],
            tensor.shape,
            [step * kind.itemsize for step in tensor.strides],
            writeable=False,
        )
        if tensor.storage[1] == "BFloat16Storage":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        found[name] = np.array(array, np.float32)
    return found


class _Unpickler(pickle.Unpickler):
    """Knows the few names of which a dictionary of tensors is made."""

    def find_class(self, module: str, name: str) -> Any:
        match f"{module} {name}":
            case "collections OrderedDict":
                return collections.OrderedDict
            case "torch._utils _rebuild_tensor_v2":
                return lambda *arguments: _Tensor(*arguments[:4])
            case "torch._utils _rebuild_parameter":
                return lambda *arguments: arguments[0]
            case text if module != "torch" or name not in _TYPES:
                raise ValueError(f"it asks to call {text!r}")
        return name  # of a type of numbers

    def persistent_load(self, pid: Any) -> tuple[Any, ...]:
        return tuple(pid)


def _build(file: IO[bytes]) -> Any:
    """The value that one pickle describes; the file is left behind it."""
    return _Unpickler(file, encoding="latin-1").load()
