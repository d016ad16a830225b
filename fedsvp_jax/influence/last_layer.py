"""A network cut before its last layer: frozen features, and the layer on top of them.

The features are centred and scaled by the mean and length of the centre's features.
Only the (C, d) kernel of the last layer is trained; its bias stays at 0. A step of the
bias on a batch of one class would raise that class for every image, and all testers
without that class would vote against a clean contributor.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax.core.structs import Array, Number, Params, cross_entropy
from fedsvp_jax.models.batches import in_batches
from fedsvp_jax.models.evaluation import outputs_for
from fedsvp_jax.models.last_layer import Backbone

_BATCH = 250  # examples that pass through the network at once


class Scaling(NamedTuple):
    """The fixed layer after the backbone: (f − mean)/scale."""

    mean: Array  # (d,) float32
    scale: Array  # () float32: root mean square L2 norm of f − mean


def freeze(
    backbone: Backbone, params: Params, stats: Params
) -> Callable[[Array], Array]:
    """The features by a whole model's weights, whose last layer is left out.

    Returns:
      (n, *example_shape) as stored, not yet normalised -> (n, d) float32.
    """

    def without_last(leaf: Array, is_last: bool) -> Array:
        if not is_last:
            return leaf
        if leaf.ndim == 2:
            return jnp.eye(backbone.width, dtype=leaf.dtype)
        return jnp.zeros(backbone.width, leaf.dtype)

    frozen = jax.tree.map(without_last, params, backbone.is_last)
    outputs = partial(_outputs, backbone.model, frozen, stats)
    return lambda inputs: jnp.concatenate([*in_batches(outputs, inputs, _BATCH)])


_outputs = jax.jit(outputs_for, static_argnums=0)


def fit_scaling(raw: Array) -> Scaling:
    """The scaling that gives the features (n, d) mean 0 and mean squared norm 1."""
    mean = jnp.mean(raw, axis=0)
    square = jnp.mean(jnp.sum(jnp.square(raw - mean[None]), axis=1))
    return Scaling(mean, scale=jnp.sqrt(jnp.maximum(square, 1e-12)))


def scaled(scaling: Scaling, raw: Array) -> Array:
    """(n, d): the features, centred and scaled."""
    return (raw - scaling.mean[None]) / scaling.scale


def descend(
    kernel: Array,
    x: Array,
    labels: Array,
    weights: Array,
    *,
    num_epochs: Array | int,
    learning_rate: Number,
) -> Array:
    """(C, d): the kernel after gradient descent; an epoch is one step on the batch.

    Args:
      kernel: W (C, d) to start from, of the logits x Wᵀ.
      x: (n, d) scaled features.
      labels: (n,) int32.
      weights: (n,) float32; 0 for padding. The loss is their weighted mean.
      num_epochs: steps; may be traced.
      learning_rate: step size.
    """
    total = jnp.maximum(jnp.sum(weights), 1.0)

    def loss(w: Array) -> Array:
        return jnp.sum(weights * cross_entropy(x @ w.T, labels)) / total

    gradient = jax.grad(loss)
    return jax.lax.fori_loop(
        0, num_epochs, lambda _, w: w - learning_rate * gradient(w), kernel
    )


@partial(jax.jit, static_argnames=("num_classes", "num_epochs"))
def fit_last_layer(
    raw: Array,
    labels: Array,
    *,
    num_classes: int,
    num_epochs: int,
    learning_rate: float,
) -> tuple[Scaling, Array]:
    """The scaling of the centre's features, and W_0 (C, d) trained on these.

    Both are sent to every participant in addition to the backbone. W_0 starts at 0.

    W_0 should take few steps. Trained to the end on a hundred examples it is
    overconfident; a batch of random labels makes it less so, and thereby lowers the
    testers' losses just as a clean batch does.

    Args:
      raw: (w, d) features of the centre's examples, not scaled.
      labels: (w,) int32.
      num_classes: C.
      num_epochs: steps, each on all examples.
      learning_rate: step size.
    """
    scaling = fit_scaling(raw)
    x = scaled(scaling, raw)
    kernel = descend(
        jnp.zeros((num_classes, x.shape[1]), jnp.float32),
        x,
        labels,
        jnp.ones(labels.shape, jnp.float32),
        num_epochs=num_epochs,
        learning_rate=learning_rate,
    )
    return scaling, kernel
