"""What the centre trains on its own few examples: a backbone and a last layer."""

from functools import partial

import flax.struct
import jax
import jax.numpy as jnp

from fedsvp_jax.algorithm import local_training
from fedsvp_jax.algorithm.local_training import Draws, TrainingRates, TrainingRecipe
from fedsvp_jax.influence import last_layer
from fedsvp_jax.influence.last_layer import Scaling
from fedsvp_jax.structs import Array, Examples, Model, Params, Rows, Weights


@flax.struct.dataclass
class LastLayer:
    """What the centre sends to every participant in addition to the backbone."""

    scaling: Scaling
    kernel: Array  # (C, d or k) float32: W_0


def warm_up(
    model: Model,
    params: Params,
    stats: Params,
    examples: Examples,
    *,
    num_epochs: int,
    batch_size: int,
    learning_rate: float,
    augment: bool = False,
    key: Array,
) -> tuple[Params, Params]:
    """The whole model after plain SGD on all of `examples`.

    Args:
      model: the model.
      params, stats: its weights to start from.
      examples: all of them are trained on.
      num_epochs: passes over the examples.
      batch_size: at most; all examples are one batch if there are fewer.
      learning_rate: step size.
      augment: randomly crop and flip the images.
      key: draws the order of the examples and the augmentation.

    Returns:
      `(params, stats)`.
    """
    count = examples.labels.shape[0]
    recipe = TrainingRecipe(
        min(batch_size, count), num_epochs, gradient="mean", augment=augment
    )
    return _train(model, recipe, params, stats, examples, learning_rate, key)


@partial(jax.jit, static_argnames=("model", "recipe"))
def _train(
    model: Model,
    recipe: TrainingRecipe,
    params: Params,
    stats: Params,
    examples: Examples,
    learning_rate: Array,
    key: Array,
) -> tuple[Params, Params]:
    count = examples.labels.shape[0]
    return local_training.local_update(
        model,
        recipe,
        TrainingRates(
            learning_rate=learning_rate,
            l2_norm_clip=1.0,
            step_noise_std=0.0,
            proximal_mu=0.0,
        ),
        Weights(params, stats),
        Rows(examples, jnp.arange(count, dtype=jnp.int32), jnp.ones((count,), bool)),
        Draws(key),
    )


@partial(jax.jit, static_argnames=("num_classes", "num_epochs", "num_directions"))
def fit_last_layer(
    raw: Array,
    labels: Array,
    *,
    num_classes: int,
    num_epochs: int,
    learning_rate: float,
    num_directions: int | None = None,
) -> LastLayer:
    """The scaling of the centre's features, and W_0 trained from 0 on the scaled ones.

    W_0 should take few steps. Trained to the end on a hundred examples it is
    overconfident; a batch of random labels makes it less so, and thereby lowers the
    testers' losses just as a clean batch does.

    Args:
      raw: (w, d) features of the centre's examples, not scaled.
      labels: (w,) int32.
      num_classes: C.
      num_epochs: steps, each on all examples.
      learning_rate: step size.
      num_directions: as `last_layer.fit_scaling` takes it.
    """
    scaling = last_layer.fit_scaling(raw, num_directions)
    x = last_layer.scaled(scaling, raw)
    kernel = last_layer.descend(
        jnp.zeros((num_classes, x.shape[1]), jnp.float32),
        x,
        labels,
        jnp.ones(labels.shape, jnp.float32),
        num_epochs=num_epochs,
        learning_rate=learning_rate,
    )
    return LastLayer(scaling, kernel)
