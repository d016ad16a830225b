"""What the centre trains on its own few examples: a backbone and a last layer."""

import dataclasses
from collections.abc import Callable
from functools import partial

import flax.struct
import jax
import jax.numpy as jnp

from fedsvp_jax.algorithm import local_training
from fedsvp_jax.algorithm.local_training import Draws, TrainingRates, TrainingRecipe
from fedsvp_jax.data import preprocessing
from fedsvp_jax.influence import last_layer
from fedsvp_jax.influence.last_layer import Backbone, Scaling
from fedsvp_jax.structs import Array, Examples, Model, Rows, Weights


@flax.struct.dataclass
class LastLayer:
    """What the centre sends to every participant in addition to the backbone."""

    scaling: Scaling
    kernel: Array  # (C, d or k) float32: W_0


@dataclasses.dataclass(frozen=True)
class Centre:
    """What the centre holds, and how it trains a whole model on it.

    Attributes:
      examples: the centre's, which no client holds.
      build: number of classes -> Model.
      num_classes: C.
      recipe: of plain SGD; its batch size is a most, for few examples are one batch.
      learning_rate: step size.
    """

    examples: Examples
    build: Callable[[int], Model]
    num_classes: int
    recipe: TrainingRecipe
    learning_rate: float

    def backbone(self) -> Backbone:
        """The network before its last layer.

        Raises:
          ValueError: as `last_layer.backbone_of`.
        """
        example = preprocessing.normalize(self.examples.inputs[:1])
        return last_layer.backbone_of(self.build, example)

    def warm_up(self, start: Weights, key: Array) -> Weights:
        """The whole model after SGD on all of the examples, in an order that key draws.

        Args:
          start: the weights to start from.
        """
        model, recipe = self.build(self.num_classes), self.recipe
        return warm_up(model, recipe, start, self.examples, self.learning_rate, key)


@partial(jax.jit, static_argnames=("model", "recipe"))
def warm_up(
    model: Model,
    recipe: TrainingRecipe,
    start: Weights,
    examples: Examples,
    learning_rate: Array | float,
    key: Array,
) -> Weights:
    """As `Centre.warm_up`."""
    count = examples.labels.shape[0]
    return local_training.local_update(
        model,
        dataclasses.replace(recipe, batch_size=min(recipe.batch_size, count)),
        TrainingRates(
            learning_rate=learning_rate,
            l2_norm_clip=1.0,
            step_noise_std=0.0,
            proximal_mu=0.0,
        ),
        start,
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
