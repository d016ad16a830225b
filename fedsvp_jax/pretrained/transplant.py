"""Fills the parameters of a Flax network with tensors of another framework."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from fedsvp_jax.structs import Params


def transplant(
    shapes: Params,
    tensors: Mapping[str, np.ndarray],
    *,
    name_of: Callable[[tuple[str, ...]], str],
    kernel_layout: Callable[[np.ndarray], np.ndarray],
    unused: re.Pattern[str],
    source: str,
) -> Params:
    """The tree `shapes`, filled with the tensors of a checkpoint as float32.

    Args:
      shapes: the network's parameters (`jax.eval_shape` of its `init`).
      tensors: name -> array.
      name_of: path of a leaf -> name of its tensor.
      kernel_layout: (out, in, height, width) -> the network's kernel; it is applied to
        every array of four axes.
      unused: matches the names of tensors that may be left out.
      source: where the tensors come from, for error messages.

    Raises:
      ValueError: a tensor is missing, has another shape, or is unknown.
    """
    needed = {
        name_of(path): (path, leaf.shape)
        for path, leaf in traverse_util.flatten_dict(shapes).items()
    }
    missing = [name for name in needed if name not in tensors]
    if missing:
        raise ValueError(
            f"{source} lacks {len(missing)} of {len(needed)} tensors: {_few(missing)}"
        )
    unknown = [
        name for name in tensors if name not in needed if not unused.search(name)
    ]
    if unknown:
        raise ValueError(
            f"{source} has {len(unknown)} tensors that the network has no place for: "
            f"{_few(unknown)}"
        )
    filled: dict[tuple[str, ...], Any] = {}
    for name, (path, shape) in needed.items():
        tensor = tensors[name]
        placed = kernel_layout(tensor) if tensor.ndim == 4 else tensor
        if placed.shape != shape:
            raise ValueError(
                f"{source}: {name} has shape {tensor.shape}, laid out here as "
                f"{placed.shape}; the network needs {shape}"
            )
        filled[path] = jnp.asarray(placed, jnp.float32)
    return traverse_util.unflatten_dict(filled)


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
