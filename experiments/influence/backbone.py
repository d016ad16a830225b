"""The weights of a pretrained backbone, as one safetensors file."""

import os
import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import extras
from fedsvp_jax.structs import Array, Model, Params


def save(
    path: pathlib.Path, params: Params, stats: Params, about: dict[str, str]
) -> None:
    """Writes the weights; an interrupted write leaves the previous file untouched.

    Args:
      path: the file.
      params, stats: the weights of the whole model.
      about: goes into the file's header; `load` needs its `num_classes`.
    """
    safetensors = extras.needed("safetensors.numpy", "vit", "a backbone's file")
    beside = path.with_name(path.name + ".tmp")
    safetensors.save_file(_named((params, stats)), beside, metadata=about)
    os.replace(beside, path)


def load(
    path: pathlib.Path, build: Callable[[int], Model], example: Array
) -> tuple[Params, Params, dict[str, str]]:
    """Reads what `save` wrote: `(params, stats, about)`.

    Args:
      path: the file.
      build: number of classes -> Model of the kind that was saved.
      example: one input batch.

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: the file was not written by `save`, or its weights belong to another
        model or another shape of examples.
    """
    safetensors = extras.needed("safetensors", "vit", "a backbone's file")
    if not path.is_file():
        raise FileNotFoundError(f"backbone {path} does not exist or is not a file")
    try:
        with safetensors.safe_open(path, "np") as file:
            about = dict(file.metadata() or {})
            held = {name: file.get_tensor(name) for name in list(file.keys())}
        model = build(int(about["num_classes"]))
    except (safetensors.SafetensorError, KeyError) as error:
        raise ValueError(
            f"backbone {path} is damaged or was not written by experiments.pretrain "
            f"({error!r})"
        ) from error
    wanted = jax.eval_shape(model.init, jax.random.key(0), example)
    names = _names(wanted)
    shapes = dict(zip(names, jax.tree.leaves(wanted), strict=True))
    unlike = [
        name
        for name in sorted({*names, *held})
        if name not in held
        or name not in shapes
        or held[name].shape != shapes[name].shape
    ]
    if unlike:
        raise ValueError(
            f"backbone {path} does not fit the model: the weights {unlike[0]} are "
            "missing, unknown or of another shape"
        )
    leaves = [jnp.asarray(held[name]) for name in names]
    params, stats = jax.tree.unflatten(jax.tree.structure(wanted), leaves)
    return params, stats, about


def _names(tree: Params) -> list[str]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [jax.tree_util.keystr(path) for path, _ in paths]


def _named(tree: Params) -> dict[str, np.ndarray]:
    leaves = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(tree)]
    return dict(zip(_names(tree), leaves, strict=True))
