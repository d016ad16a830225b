"""Reads the named tensors of a checkpoint file without executing code from it."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a state dict, as float32.

    A `.safetensors` file holds numbers and a header. Any other file must be one that
    `torch.save` wrote, in its zip format or the older one. PyTorch reads it with
    `weights_only=True`, which admits only tensors, so that no pickled code runs.

    Args:
      path: the file.

    Returns:
      Name -> array, in the layout of the file.

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: the package that reads the format is not installed, or the file is
        damaged or holds anything other than named tensors.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint file {path}")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    return _read_torch(path)


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    safetensors = _import(
        "safetensors", f"reading {path} needs safetensors: pip install fedsvp_jax[vit]"
    )
    load_file = importlib.import_module("safetensors.numpy").load_file
    try:
        tensors = load_file(path)  # bfloat16 too, a NumPy type once JAX is imported
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
    return {name: np.asarray(tensor, np.float32) for name, tensor in tensors.items()}


def _read_torch(path: Path) -> dict[str, np.ndarray]:
    torch = _import(
        "torch",
        f"reading {path} needs PyTorch (pip install torch); where it is installed, "
        "safetensors.torch.save_file(torch.load(FILE, weights_only=True), "
        "'NAME.safetensors') writes a file that is read without it",
    )
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # RuntimeError, UnpicklingError, EOFError, … by format
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} is not a file of plain tensors: {reason}") from error
    if not isinstance(tensors, dict) or not all(map(torch.is_tensor, tensors.values())):
        raise ValueError(f"{path} must hold a state dict: tensors by name")
    return {
        name: tensor.detach().to(torch.float32).numpy()
        for name, tensor in tensors.items()
    }


def _import(package: str, otherwise: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ValueError(otherwise) from error
