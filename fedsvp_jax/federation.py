"""From settings and a data set to the arrays that the compiled round takes."""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data import attributes, partition, sources
from fedsvp_jax.data.attributes import Attributes
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federated_round import Cell, RoundPlan
from fedsvp_jax.local_training import Gradient, TrainingRates, TrainingRecipe
from fedsvp_jax.mechanisms import (
    MechanismConfig,
    make_mechanism,
    with_analytic_multiplier,
)
from fedsvp_jax.privacy_estimation import CoalitionPlan
from fedsvp_jax.structs import Examples, Split


class Federation(NamedTuple):
    """Data on the device, and who holds what in every cell."""

    examples: Examples
    test: Examples
    split: Split  # leading axis (cells,)
    attributes: Attributes
    coalition_sizes: dict[int, int]  # bitmask -> most examples of any client
    min_num_examples: int


def example_attributes(config: ExperimentConfig, dataset: Dataset) -> Attributes:
    """Each training example's attribute, by `config.attributes`."""
    kind, _, name = config.attributes.partition(":")
    private = config.private_attribute
    if config.num_attributes == 1:
        nobody = np.zeros(len(dataset.train_labels), np.int32)
        return Attributes(nobody, ("everything",), private=0)
    if kind == "class" and not name:
        return attributes.class_private(
            dataset.train_labels,
            private,
            num_classes=dataset.num_classes,
            num_attributes=config.num_attributes,
        )
    if kind == "writer_groups" and not name:
        if dataset.train_writers is None:
            raise ValueError(
                f"attributes=writer_groups needs writers; dataset {dataset.name} "
                "has none"
            )
        return attributes.from_writer_groups(
            dataset.train_writers, config.num_attributes, seed=0
        )
    if kind == "column":
        if name not in dataset.columns:
            known = ", ".join(dataset.columns) or "none"
            raise ValueError(
                f"attributes=column:{name}: dataset {dataset.name} has the columns "
                f"{known}"
            )
        column = dataset.columns[name]
        if not 0 <= private < len(column.categories):
            raise ValueError(
                f"private_attribute must be in [0, {len(column.categories)}), the "
                f"categories of column {name}, got {private}"
            )
        found = attributes.from_column(column, column.categories[private])
        if len(found.names) != config.num_attributes:
            raise ValueError(
                f"num_attributes must be {len(found.names)}, the categories of "
                f"column {name}, got {config.num_attributes}"
            )
        return found
    raise ValueError(
        "attributes must be class, column:NAME or writer_groups, got "
        f"{config.attributes!r}"
    )


def client_parts(config: ExperimentConfig, dataset: Dataset) -> list[np.ndarray]:
    """Each client's example indices, by `config.partition` and `config.seed`."""
    labels, seed = dataset.train_labels, config.seed
    match config.partition:
        case "iid":
            return partition.iid(len(labels), config.num_clients, seed=seed)
        case "paper":
            return partition.paper(
                labels, config.num_clients, share=config.class_share, seed=seed
            )
        case "shards":
            return partition.shards(
                labels,
                config.num_clients,
                shards_per_client=config.shards_per_client,
                seed=seed,
            )
        case "dirichlet":
            return partition.dirichlet(
                labels,
                config.num_clients,
                alpha=config.dirichlet_alpha,
                min_examples=_least_examples(config),
                seed=seed,
            )
        case _:
            if dataset.train_writers is None:
                raise ValueError(
                    f"partition=by_writer needs writers; dataset {dataset.name} has "
                    "none"
                )
            return partition.by_writer(
                dataset.train_writers,
                config.num_clients,
                min_examples=_least_examples(config),
                seed=seed,
            )


def _least_examples(config: ExperimentConfig) -> int:
    """Enough that a client fills one batch with its training part."""
    return int(np.ceil(config.batch_size / config.train_fraction)) + 1


def build(configs: Sequence[ExperimentConfig], dataset: Dataset) -> Federation:
    """The federation of every cell; cells differ in what does not change shapes.

    Splits are made once a seed and padded to common shapes.
    """
    first = configs[0]
    found = example_attributes(first, dataset)
    by_seed: dict[int, Split] = {}
    for config in configs:
        if config.seed not in by_seed:
            by_seed[config.seed] = partition.make_split(
                client_parts(config, dataset),
                found.ids,
                private_attribute=found.private,
                num_hbc=0 if config.num_attributes == 1 else config.num_hbc_clients,
                train_fraction=config.train_fraction,
                seed=config.seed,
            )
    split = partition.stack_splits([by_seed[config.seed] for config in configs])
    sizes = np.asarray(split.num_train)
    return Federation(
        examples=sources.device_examples(
            dataset.train_inputs, dataset.train_labels, found.ids
        ),
        test=sources.device_examples(dataset.test_inputs, dataset.test_labels),
        split=split,
        attributes=found,
        coalition_sizes=_coalition_sizes(split, found),
        min_num_examples=int(sizes.min()),
    )


def _coalition_sizes(split: Split, found: Attributes) -> dict[int, int]:
    rows = np.asarray(split.train).reshape(-1, split.train.shape[-1])
    counts = np.asarray(split.num_train).reshape(-1)
    held = np.arange(rows.shape[1]) < counts[:, None]
    of_row = found.ids[rows]
    num_attributes = len(found.names)
    by_attribute = np.stack(
        [((of_row == a) & held).sum(1) for a in range(num_attributes)]
    )
    return {
        mask: int(
            sum(by_attribute[a] for a in range(num_attributes) if mask >> a & 1).max()
        )
        for mask in range(1, 2**num_attributes)
    }


def load_dataset(config: ExperimentConfig) -> Dataset:
    """The data set by name, in the layout that the model takes."""
    dataset = sources.load(config.dataset, config.data_dir)
    if config.model == "paper_cnn" and dataset.example_shape == (28, 28, 1):
        dataset = sources.to_rgb32(dataset)
    dataset = _evaluated_on(dataset, config.max_test_examples)
    images = dataset.train_inputs.ndim == 4
    if config.model != "mlp" and not images:
        raise ValueError(
            f"model {config.model} needs images, and dataset {config.dataset} has "
            f"examples of the shape {dataset.example_shape}; use model=mlp"
        )
    if config.augment and not images:
        raise ValueError(f"augment needs images, dataset {config.dataset} has none")
    return dataset


def _evaluated_on(dataset: Dataset, most: int | None) -> Dataset:
    """The data set with at most so many test examples, evenly spaced."""
    count = len(dataset.test_labels)
    if most is None or most >= count:
        return dataset
    kept = np.arange(most) * count // most
    return dataclasses.replace(
        dataset,
        test_inputs=dataset.test_inputs[kept],
        test_labels=dataset.test_labels[kept],
    )


def _batch_size(config: ExperimentConfig, federation: Federation) -> int:
    """B, or the largest client's size where nobody fills a batch."""
    return min(config.batch_size, federation.split.train.shape[-1])


def mechanism_config(
    config: ExperimentConfig, federation: Federation
) -> MechanismConfig:
    """The settings that a mechanism reads, checked as concrete numbers."""
    clip = config.l2_norm_clip
    made = MechanismConfig(
        epsilon=config.epsilon,
        delta=config.delta,
        l2_norm_clip=clip,
        min_num_examples=float(federation.min_num_examples),
        noise_floor=config.noise_floor,
        update_clip=clip,
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
        batch_size=_batch_size(config, federation),
        sensitivity=config.sensitivity,
        relation=config.relation,
        calibration=config.calibration,
        allow_large_epsilon=config.allow_large_epsilon,
        contribution_release=config.contribution_release,
        clip_weights=config.clip_weights,
        downlink_noise=config.downlink_noise,
        adaptive_clip=config.adaptive_clip,
    )
    made = with_analytic_multiplier(made)
    make_mechanism(config.mechanism, made)
    return jax.tree.map(np.float32, made)


def _gradient(config: ExperimentConfig) -> Gradient:
    """What a local step follows.

    DP-FedAvg clips its updates alone (McMahan et al. 2018), FedAvg nothing when C is
    infinite; whatever else there is clips the gradient of every step.
    """
    if config.sensitivity == "per_example":
        return "per_example"
    if config.mechanism == "dp_fedavg" or math.isinf(config.l2_norm_clip):
        return "mean"
    return "clipped_mean"


def make_plan(config: ExperimentConfig, federation: Federation) -> RoundPlan:
    """The static choices of the compiled round."""
    longest = federation.split.validation.shape[-1]
    return RoundPlan(
        mechanism=config.mechanism,
        recipe=TrainingRecipe(
            batch_size=_batch_size(config, federation),
            local_epochs=config.local_epochs,
            gradient=_gradient(config),
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


def settings(config: ExperimentConfig, dataset: Dataset) -> dict[str, object]:
    """What config.json records: the resolved settings and the data's fingerprint."""
    return {
        **dataclasses.asdict(config),
        "num_train_examples": len(dataset.train_labels),
        "num_test_examples": len(dataset.test_labels),
        "data_fingerprint": dataset.fingerprint,
    }
