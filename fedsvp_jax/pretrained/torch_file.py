"""Reads what `torch.save` wrote, without PyTorch and without running code from it.

Such a file is a pickled dictionary, which names functions to be called, and the numbers
beside it. The reader follows the few instructions by which a dictionary of tensors is
built (`pickletools` lists them), calls nothing that the file names, and refuses every
other instruction. No array is larger than the file's own bytes justify. Source of the
layout: torch/serialization.py, PyTorch 2.
"""

import io
import pickletools
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

_MOST_TIMES = 16  # so many bytes of float32 for one of the file
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


class _Name(NamedTuple):
    """A function or class that the file names."""

    text: str


class _Storage(NamedTuple):
    """Numbers that lie beside the pickle."""

    kind: str  # of `_TYPES`
    key: str
    numbers: int

    @property
    def size(self) -> int:
        """In bytes."""
        return self.numbers * _TYPES[self.kind].itemsize


class _Tensor(NamedTuple):
    """Where a tensor's numbers lie."""

    storage: _Storage
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
    file = io.BytesIO(path.read_bytes())
    try:
        zipped = zipfile.is_zipfile(file)
        file.seek(0)
        return _read_zip(file) if zipped else _read_old(file)
    except Exception as error:  # damage makes the parsers of Python raise anything
        raise ValueError(
            f"{path} is not a file of plain tensors: {error or type(error).__name__}"
        ) from error


def _read_zip(file: io.BytesIO) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(file) as archive:
        if any(info.compress_type for info in archive.infolist()):
            raise ValueError("torch.save compresses nothing, and this is compressed")
        names = archive.namelist()
        (index,) = (n for n in names if n.count("/") == 1 and n.endswith("/data.pkl"))
        top = index.removesuffix("data.pkl")
        order = f"{top}byteorder"
        if order in names and archive.read(order) != b"little":
            raise ValueError("its numbers are big-endian")
        held = _build(io.BytesIO(archive.read(index)))
        return _tensors(
            held, lambda s: archive.read(f"{top}data/{s.key}"), len(file.getbuffer())
        )


def _read_old(file: io.BytesIO) -> dict[str, np.ndarray]:
    if _build(file) != _MAGIC:
        raise ValueError("it does not begin as such a file does")
    _build(file)  # the version of the protocol
    if not _build(file)["little_endian"]:
        raise ValueError("its numbers are big-endian")
    held, keys = _build(file), _build(file)
    sizes = {t.storage.key: t.storage.size for t in _listed(held).values()}
    numbers = {}
    for key in keys:
        file.seek(8, io.SEEK_CUR)  # the count, which the index holds too
        numbers[key] = file.read(sizes[key])
    return _tensors(held, lambda s: numbers[s.key], len(file.getbuffer()))


def _listed(held: Any) -> dict[str, _Tensor]:
    if not isinstance(held, dict) or not all(
        isinstance(name, str) and isinstance(value, _Tensor)
        for name, value in held.items()
    ):
        raise ValueError("it must hold a state dict: tensors by name")
    return held


def _tensors(
    held: Any, read: Callable[[_Storage], bytes], length: int
) -> dict[str, np.ndarray]:
    """The arrays, copied out of the storages that `read` gives of a file's `length`."""
    found: dict[str, np.ndarray] = {}
    for name, tensor in _listed(held).items():
        if sum(array.nbytes for array in found.values()) > _MOST_TIMES * length:
            raise ValueError("it shares its numbers among too many tensors")
        kind = _TYPES[tensor.storage.kind]
        numbers = np.frombuffer(read(tensor.storage), kind)
        last = sum(
            (n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True)
        )
        size = int(np.prod(tensor.shape, dtype=np.int64))
        within = tensor.offset >= 0 and tensor.offset + last < len(numbers)
        whole = size <= len(numbers) and (within or not size)
        if min((0, *tensor.shape, *tensor.strides)) < 0 or not whole:
            raise ValueError(f"{name} lies outside of its numbers")
        array = np.lib.stride_tricks.as_strided(
            numbers[tensor.offset :] if size else numbers[:0],
            tensor.shape,
            [step * kind.itemsize for step in tensor.strides],
            writeable=False,
        )
        if tensor.storage.kind == "BFloat16Storage":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        found[name] = np.array(array, np.float32)
    return found


_MARK = object()


def _called(function: _Name, arguments: tuple[Any, ...]) -> Any:
    """What the call of a named function stands for."""
    match function.text:
        case "collections OrderedDict" if not arguments:
            return {}
        case "torch._utils _rebuild_tensor_v2":
            storage, offset, shape, strides = arguments[:4]
            return _Tensor(storage, offset, shape, strides)
        case "torch._utils _rebuild_parameter":
            return arguments[0]
        case _:
            raise ValueError(f"it asks to call {function.text!r}")


def _build(file: BinaryIO) -> Any:
    """The value that one pickle describes; the file is left behind it."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def put(target: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        for key, value in pairs:
            if not isinstance(key, str | int):  # the hash of a nested key may take ages
                raise ValueError("a key of it is no text")
            target[key] = value

    def to_mark() -> list[Any]:
        at = len(stack) - 1 - stack[::-1].index(_MARK)
        items = stack[at + 1 :]
        del stack[at:]
        return items

    argument: Any
    for opcode, argument, _ in pickletools.genops(file):
        match opcode.name:
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                stack.append(_MARK)
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                value = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
                stack.append(value[opcode.name])
            case (
                "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT" | "BINUNICODE"
                | "SHORT_BINUNICODE" | "SHORT_BINSTRING"
            ):  # fmt: skip
                stack.append(argument)
            case "GLOBAL":
                stack.append(_Name(argument))
            case "EMPTY_TUPLE":
                stack.append(())
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "TUPLE":
                stack.append(tuple(to_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(opcode.name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                put(stack[-1], [(key, value)])
            case "SETITEMS":
                items = to_mark()
                put(stack[-1], zip(items[::2], items[1::2], strict=True))
            case "APPEND":
                value = stack.pop()
                stack[-1].append(value)
            case "APPENDS":
                items = to_mark()
                stack[-1].extend(items)
            case "BUILD":
                stack.pop()  # attributes such as _metadata, which nothing here reads
            case "BINPERSID":
                _, kind, key, _, count, *_ = stack.pop()
                name = kind.text.removeprefix("torch ")
                if not (isinstance(key, str) and isinstance(count, int) and count >= 0):
                    raise ValueError("it names numbers in no way that is known")
                stack.append(_Storage(name, key, count))
            case "REDUCE":
                arguments = stack.pop()
                stack.append(_called(stack.pop(), arguments))
            case "STOP":
                return stack.pop()
            case name:
                raise ValueError(f"it holds the instruction {name}")
    raise ValueError("it ends too early")
