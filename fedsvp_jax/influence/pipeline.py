"""The centre's part of the filter: its copy of the network, and its last layer W_0."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp

from fedsvp_jax.core.structs import Array, Examples, Model, Number, Rows, Weights, iota
from fedsvp_jax.round import local_training

from . import last_layer


@partial(jax.jit, static_argnames=("model", "recipe"))
def warm_up(
    model: Model,
    recipe: local_training.TrainingRecipe,
    start: Weights,
    examples: Examples,
    learning_rate: Number,
    key: Array,
) -> Weights:
    """The whole model after plain SGD on the centre's examples, in a key's order.

    Args:
      recipe: its batch size is a most, for few examples are one batch.
      start: the weights to start from.
      examples: the centre's, which no client holds.
      learning_rate: step size.
    """
    count = len(examples.labels)
    return local_training.local_update(
        model,
        dataclasses.replace(recipe, batch_size=min(recipe.batch_size, count)),
        local_training.TrainingRates(learning_rate, l2_norm_clip=1.0),
        start,
        Rows(examples, iota(count), jnp.ones(count, bool)),
        local_training.Draws(key),
    )


@partial(jax.jit, static_argnames=("num_classes", "num_epochs"))
def fit_last_layer(
    raw: Array,
    labels: Array,
    *,
    num_classes: int,
    num_epochs: int,
    learning_rate: float,
) -> tuple[last_layer.Scaling, Array]:
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
    scaling = last_layer.fit_scaling(raw)
    x = last_layer.scaled(scaling, raw)
    kernel = last_layer.descend(
        jnp.zeros((num_classes, x.shape[1]), jnp.float32),
        x,
        labels,
        jnp.ones(labels.shape, jnp.float32),
        num_epochs=num_epochs,
        learning_rate=learning_rate,
    )
    return scaling, kernel
