"""What the centre makes of its own few examples: a backbone and a last layer."""

from functools import partial

import flax.struct
import jax
import jax.numpy as jnp

from fedsvp_jax.algorithm import local_training
from fedsvp_jax.algorithm.local_training import TrainingRates, TrainingRecipe
from fedsvp_jax.influence import last_layer
from fedsvp_jax.influence.last_layer import Scaling
from fedsvp_jax.structs import Array, Examples, Model, Params


@flax.struct.dataclass
class LastLayer:
    """What the centre hands to every participant, beside the backbone."""

    scaling: Scaling
    kernel: Array  # (C, d) float32: W_0


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
    """The whole model, trained by plain SGD on all of `examples`."""
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
            proximal_weight=0.0,
        ),
        params,
        stats,
        examples,
        jnp.arange(count, dtype=jnp.int32),
        jnp.ones((count,), bool),
        key=key,
        batch_size=recipe.batch_size,
        lane_axes=(),
    )


@partial(jax.jit, static_argnames=("num_classes", "num_epochs"))
def fit_last_layer(
    raw: Array,
    labels: Array,
    *,
    num_classes: int,
    num_epochs: int,
    learning_rate: float,
) -> LastLayer:
    """The scaling and the last layer, from 0, of the centre's features (w, d).

    Few steps are wanted. A last layer trained to the end on a hundred examples is too
    sure of itself, and a batch of random labels, which makes it less sure, lowers the
    testers' losses as a clean batch does.
    """
    scaling = last_layer.fit_scaling(raw)
    kernel = last_layer.descend(
        jnp.zeros((num_classes, raw.shape[1]), jnp.float32),
        last_layer.scaled(scaling, raw),
        labels,
        jnp.ones(labels.shape, jnp.float32),
        num_epochs=num_epochs,
        learning_rate=learning_rate,
    )
    return LastLayer(scaling, kernel)
