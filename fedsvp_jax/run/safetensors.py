"""The `.safetensors` format, read and written without its library.

A length of the header (8 bytes, little-endian), the header in JSON, then the numbers:
https://github.com/huggingface/safetensors#format. No code is executed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": jnp.bfloat16, "BOOL": "?"}
_KINDS |= {"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U32": "<u4"}
_TYPES = {np.dtype(kind): code for code, kind in (_KINDS | {"U8": "u1"}).items()}
_METADATA = "__metadata__"
_MOST_HEADER = 100_000_000  # bytes, as the format says


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays by name and the metadata of a `.safetensors` file; no code is executed.

    Raises:
      OSError: it cannot be read.
      ValueError: it is damaged.
    """
    raw = path.read_bytes()
    kinds = {code: kind for kind, code in _TYPES.items()}
    try:
        size = int.from_bytes(raw[:8], "little")
        if len(raw) < 8 or size > min(len(raw) - 8, _MOST_HEADER):
            raise ValueError("its header is cut off")
        header = json.loads(raw[8 : 8 + size])
        told = header.pop(_METADATA, {})
        found, body, taken = {}, raw[8 + size :], 0
        for name, one in header.items():
            start, end = one["data_offsets"]
            kind, shape = kinds[one["dtype"]], one["shape"]
            if not 0 <= start <= end <= len(body):
                raise ValueError(f"{name} lies outside the file")
            found[name] = np.frombuffer(body[start:end], kind).reshape(shape).copy()
            taken += end - start
        if taken != len(body):
            raise ValueError("its tensors do not fill it")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
    return found, told


def write_safetensors(
    tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> bytes:
    """The content of a `.safetensors` file of arrays by name, and of texts by name.

    Larger numbers first, so that each lies where its size divides its place.
    """
    arrays = {name: np.ascontiguousarray(leaf) for name, leaf in tensors.items()}
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        start, end = end, end + arrays[name].nbytes
        header[name] = {
            "dtype": _TYPES[arrays[name].dtype],
            "shape": list(np.shape(tensors[name])),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(arrays[name].tobytes() for name in order)
    return len(text).to_bytes(8, "little") + text + body
