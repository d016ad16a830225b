"""Named tensors in files, read without executing code from them."""

from pathlib import Path

import numpy as np

from fedsvp_jax import extras
from fedsvp_jax.pretrained.torch_file import read_torch_file


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
      ValueError: the file is damaged or holds anything other than named, finite
        tensors.
      ImportError: safetensors is needed and not installed.
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
    safetensors = extras.needed("safetensors.numpy", "vit", f"reading {path}")
    try:
        # bfloat16 too, which is a NumPy type once JAX is imported
        tensors = safetensors.load_file(path)
        return {name: np.asarray(leaf, np.float32) for name, leaf in tensors.items()}
    except Exception as error:  # damage makes the library raise anything
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
