"""Named tensors in files: read without executing code from them, and written."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.models.torch_file import read_torch_file


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a state dict, as float32.

    A `.safetensors` file holds numbers and a header. Any other file must be one that
    `torch.save` wrote (`torch_file`), which is read without PyTorch.

    Args:
      path: the file.

    Returns:
      Name -> array, in the layout of the file.

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: safetensors is needed and not installed, or the file is damaged or
        holds anything other than named, finite tensors.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint file {path}")
    safe = path.suffix == ".safetensors"
    tensors = _read_safetensors(path) if safe else read_torch_file(path)
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise ValueError(f"{path}: {name} holds NaN or infinity")
    return tensors


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    _import(
        "safetensors", f"reading {path} needs safetensors: pip install fedsvp_jax[vit]"
    )
    load_file = importlib.import_module("safetensors.numpy").load_file
    try:
        tensors = load_file(path)  # bfloat16 too, a NumPy type once JAX is imported
        return {name: np.asarray(leaf, np.float32) for name, leaf in tensors.items()}
    except Exception as error:  # damage makes the library raise anything
        raise ValueError(f"{path} is not a safetensors file: {error}") from error


def write_safetensors(tensors: Mapping[str, Any]) -> bytes:
    """The content of a `.safetensors` file of arrays by name.

    Raises:
      ValueError: safetensors is not installed.
    """
    _import(
        "safetensors",
        "writing .safetensors needs safetensors: pip install fedsvp_jax[vit]; "
        ".msgpack needs nothing more",
    )
    save = importlib.import_module("safetensors.numpy").save
    return save({name: np.ascontiguousarray(leaf) for name, leaf in tensors.items()})


def _import(package: str, otherwise: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ValueError(otherwise) from error
