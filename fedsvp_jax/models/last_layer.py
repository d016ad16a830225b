"""A network cut before its last layer."""

from collections.abc import Callable
from typing import NamedTuple

import jax

from fedsvp_jax.core.structs import Array, Model, Params


class Backbone(NamedTuple):
    """A network cut before its last layer, without weights."""

    model: Model  # its logits are the features
    is_last: Params  # per parameter a bool: whether it belongs to the last layer
    width: int  # d


def backbone_of(build: Callable[[int], Model], example: Array) -> Backbone:
    """The network before the last layer.

    The last layer is recognised by its shape, which depends on the number of classes.
    If it has d outputs, the identity as kernel and 0 as bias, it returns its input: the
    network's logits are then the features.

    Raises:
      ValueError: the model does not end in one dense layer (a kernel and perhaps a
        bias).
    """
    two, three = (build(count).shapes(example).params for count in (2, 3))
    is_last = jax.tree.map(lambda a, b: a.shape != b.shape, two, three)
    pairs = zip(jax.tree.leaves(two), jax.tree.leaves(three), strict=True)
    last = [(a.shape, b.shape) for a, b in pairs if a.shape != b.shape]
    if sorted(len(a) for a, _ in last) not in ([2], [1, 2]):
        raise ValueError(
            "the influence filter needs a model that ends in one dense layer"
        )
    ((width,),) = ({*a} & {*b} for a, b in last if len(a) == 2)
    return Backbone(build(width), is_last, width)
