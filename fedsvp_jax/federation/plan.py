"""From settings and a federation to the static plan and the cells of a round."""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.algorithm.local_training import Gradient, TrainingRates, TrainingRecipe
from fedsvp_jax.algorithm.privacy_estimation import CoalitionPlan
from fedsvp_jax.algorithm.state import Cell, RoundPlan
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data.client_store import ClientStore
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation.federated_data import Federation
from fedsvp_jax.mechanisms import (
    MechanismConfig,
    make_mechanism,
    with_analytic_multiplier,
)


def _batch_size(config: ExperimentConfig, federation: Federation) -> int:
    """B, or the largest client's size where nobody fills a batch."""
    return min(config.batch_size, federation.split.train.shape[-1])


def mechanism_settings(config: ExperimentConfig) -> MechanismConfig:
    """What of the settings a mechanism reads, as it stands there; S = C."""
    return MechanismConfig(
        epsilon=config.epsilon,
        delta=config.delta,
        l2_norm_clip=config.l2_norm_clip,
        noise_floor=config.noise_floor,
        update_clip=config.l2_norm_clip,
        noise_multiplier=config.noise_multiplier,
        noise_std=config.noise_std,
        exposures=config.exposures,
        decay=config.decay,
        contraction=config.contraction,
        gamma=config.norm_mix,
        clip_quantile=config.clip_quantile,
        clip_learning_rate=config.clip_learning_rate,
        count_noise_std=config.count_noise_std,
        release_epsilon=config.release_epsilon,
        num_rounds=config.num_rounds,
        num_clients=config.num_clients,
        cohort_size=config.cohort_size,
        local_epochs=config.local_epochs,
        batch_size=config.batch_size,
        sensitivity=config.sensitivity,
        relation=config.relation,
        calibration=config.calibration,
        allow_large_epsilon=config.allow_large_epsilon,
        contribution_release=config.contribution_release,
        clip_weights=config.clip_weights,
        downlink_noise=config.downlink_noise,
        adaptive_clip=config.adaptive_clip,
    )


def mechanism_config(
    config: ExperimentConfig, federation: Federation
) -> MechanismConfig:
    """The settings that a mechanism reads, checked as concrete numbers."""
    made = with_analytic_multiplier(
        dataclasses.replace(
            mechanism_settings(config),
            min_num_examples=float(federation.min_num_examples),
            batch_size=_batch_size(config, federation),
        )
    )
    make_mechanism(config.mechanism, made)
    return jax.tree.map(np.float32, made)


def step_gradient(config: ExperimentConfig) -> Gradient:
    """What a local step follows.

    FedAvg clips nothing when C is infinite; whatever else there is clips the gradient
    of every step, `update_clip` and DP-FedAvg too: a noised model is often where plain
    SGD is not stable.
    """
    if config.sensitivity == "per_example":
        return "per_example"
    return "mean" if math.isinf(config.l2_norm_clip) else "clipped_mean"


def make_plan(config: ExperimentConfig, federation: Federation) -> RoundPlan:
    """The static choices of the compiled round."""
    longest = federation.split.validation.shape[-1]
    return RoundPlan(
        mechanism=config.mechanism,
        recipe=TrainingRecipe(
            batch_size=_batch_size(config, federation),
            local_epochs=config.local_epochs,
            gradient=step_gradient(config),
            augment=config.augment,
            proximal=config.proximal_weight > 0,
        ),
        cohort_size=config.cohort_size,
        num_clients=config.num_clients,
        num_attributes=config.num_attributes,
        private_attribute=federation.attributes.private,
        coalitions=CoalitionPlan.of(
            federation.coalition_sizes,
            num_attributes=config.num_attributes,
            batch_size=config.batch_size,
        ),
        empty_utility=config.empty_utility,
        uniform_weights=config.weighting == "uniform",
        client_chunk_size=min(config.client_chunk_size, config.cohort_size),
        validation_batch_size=min(longest, config.eval_batch_size),
        test_batch_size=min(config.eval_batch_size, federation.test.labels.shape[0]),
        eval_every=config.eval_every,
        num_rounds=config.num_rounds,
    )


def make_cells(
    configs: Sequence[ExperimentConfig],
    federation: Federation,
    mechanisms: Sequence[MechanismConfig],
    max_uploads: Sequence[int],
) -> Cell:
    """The cells' values, stacked along a leading axis."""
    rates = [
        TrainingRates(
            learning_rate=c.learning_rate,
            l2_norm_clip=c.l2_norm_clip,
            step_noise_std=0.0,
            proximal_weight=c.proximal_weight,
        )
        for c in configs
    ]

    def stack(*leaves: float) -> jax.Array:
        return jnp.asarray(np.asarray(leaves, np.float32))

    return Cell(
        root=jnp.stack([prng.root_key(config.seed) for config in configs]),
        split=federation.split,
        rates=jax.tree.map(stack, *rates),
        mechanism=jax.tree.map(stack, *mechanisms),
        max_uploads=jnp.asarray(np.asarray(max_uploads, np.int32)),
    )


def recorded_settings(
    config: ExperimentConfig, dataset: Dataset | ClientStore
) -> dict[str, object]:
    """What config.json records: the resolved settings and the data's fingerprint."""
    return {
        **dataclasses.asdict(config),
        "num_train_examples": len(dataset.train_labels),
        "num_test_examples": len(dataset.test_labels),
        "data_fingerprint": dataset.fingerprint,
    }
