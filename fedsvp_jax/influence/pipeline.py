"""One pass of the filter, from a network and stored examples to the verdict.

    network without its last layer -> features -> the centre's last layer W_0
        -> the participants' scaled features -> contributions, votes, threshold

A federation (`admission`) and a simulation of the filter alone
(`experiments.influence`) take the same steps. They differ in where the network and the
examples come from.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedsvp_jax.influence import centre, last_layer
from fedsvp_jax.influence.last_layer import FrozenNetwork
from fedsvp_jax.influence.lazy import Batches, FilterRates
from fedsvp_jax.influence.privacy import flip_probability
from fedsvp_jax.influence.settings import FilterSettings
from fedsvp_jax.structs import Array, Examples

_FEATURE_BATCH = 250  # examples that pass through the network at once


class ParticipantExamples(NamedTuple):
    """One batch of stored examples per participant, padded to a common length."""

    inputs: Array  # (M, n, *example_shape) uint8 or float32
    labels: Array  # (M, n) int32
    weights: Array  # (M, n) float32: 1, or 0 for padding


class FilterInputs(NamedTuple):
    """What one pass of the filter is computed from; M participants."""

    kernel: Array  # (C, d) float32: W_0
    train: Batches  # what the contributors train on
    test: Batches  # what the testers vote with
    warmup: Batches  # the centre's examples, as one batch (M = 1)


def filter_inputs(
    network: FrozenNetwork,
    warmup: Examples,
    train: ParticipantExamples,
    test: ParticipantExamples,
    settings: FilterSettings,
    *,
    num_classes: int,
) -> FilterInputs:
    """Features of all examples, and the centre's last layer on its own features.

    Args:
      network: its logits are the features.
      warmup: the centre's examples.
      train: each contributor's batch.
      test: each tester's test set.
      settings: `warmup_epochs`, `influence_learning_rate` and
        `influence_projection` are read.
      num_classes: C.
    """

    def features(inputs: Array) -> Array:
        return last_layer.features(*network, inputs, batch_size=_FEATURE_BATCH)

    warmup_features = features(warmup.inputs)
    layer = centre.fit_last_layer(
        warmup_features,
        warmup.labels,
        num_classes=num_classes,
        num_epochs=settings.warmup_epochs,
        learning_rate=settings.influence_learning_rate,
        num_directions=settings.influence_projection,
    )

    def batches(examples: ParticipantExamples) -> Batches:
        stored = examples.inputs.reshape(-1, *examples.inputs.shape[2:])
        x = last_layer.scaled(layer.scaling, features(stored))
        return Batches(
            x.reshape(*examples.labels.shape, -1), examples.labels, examples.weights
        )

    return FilterInputs(
        kernel=layer.kernel,
        train=batches(train),
        test=batches(test),
        warmup=Batches(
            x=last_layer.scaled(layer.scaling, warmup_features)[None],
            labels=warmup.labels[None],
            weights=jnp.ones((1, *warmup.labels.shape)),
        ),
    )


def filter_rates(settings: FilterSettings) -> FilterRates:
    """The settings that `lazy_influence` takes as arrays, all of them scalars."""
    flip = flip_probability(settings.vote_epsilon)
    return FilterRates(
        local_epochs=jnp.int32(settings.influence_epochs),
        learning_rate=jnp.float32(settings.influence_learning_rate),
        clip=jnp.float32(settings.influence_clip),
        noise_multiplier=jnp.float32(settings.contribution_noise),
        flip_probability=jnp.float32(flip),
        minimum_gap=jnp.float32(settings.minimum_gap),
    )
