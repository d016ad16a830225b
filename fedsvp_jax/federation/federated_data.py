"""From settings and a data set to the arrays that the compiled round takes."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core import prng
from fedsvp_jax.data import preprocessing, train_validation
from fedsvp_jax.data.attributes import AttributeSettings
from fedsvp_jax.data.dataset import ClientStore, Dataset, Names

from . import loading, stored_clients
from .client_data import FederatedData, division_of, game_of
from .corruption import corrupt_clients


def load_data(config: ResolvedConfig) -> Dataset | ClientStore:
    """The data set by name, in memory or, for `store`, on disk.

    Raises:
      ValueError, OSError: it is not fit for the model, or cannot be read.
    """
    if config.dataset == "store":
        return stored_clients.load(config)
    return loading.load_dataset(config)


def federate(
    configs: Sequence[ResolvedConfig], dataset: Dataset | ClientStore
) -> FederatedData:
    """The federation of each cell; a store has one cell.

    Each seed has one split, and all splits are padded to one shape. A corrupted client
    trains on changed copies of its examples, which stand behind all examples.
    """
    if isinstance(dataset, ClientStore):
        (config,) = configs
        return stored_clients.federate(config, dataset)
    first, fingerprint = configs[0], dataset.fingerprint
    loading.check_persons(first, dataset)
    withheld = loading.withhold_validation(first, dataset)
    dataset, chooses = withheld
    warmup = None
    if first.influence_filter != "none":
        if len(configs) > 1:
            raise ValueError(
                "influence_filter must be none in a sweep: each run withholds other "
                f"examples for the centre; got {first.influence_filter}"
            )
        dataset, warmup = loading.withhold(dataset, first.warmup_examples, first.seed)
    attributes = loading.attributes_of(
        first, dataset, dataset.train_labels, dataset.columns
    )
    examples = preprocessing.device_examples(
        dataset.train_inputs,
        dataset.train_labels,
        attributes.ids,
        dataset.train_targets,
        dataset.train_persons if dataset.rows_per_person is not None else None,
    )
    protected = np.ones(len(attributes.ids), bool)  # what the relation is about
    if first.clip.asks:
        protected = attributes.ids == attributes.private
    changed, num_rows = [examples], len(dataset.train_labels)
    dealt: dict[int, tuple[Any, ...]] = {}  # by seed
    for seed in dict.fromkeys(config.seed for config in configs):
        config = dataclasses.replace(first, seed=seed)
        parts = loading.client_parts(config, dataset)
        division = division_of(config, attributes.private)
        split = division.split(parts, attributes.ids, dataset.train_persons)
        copies = train_validation.most_copies(split, protected)
        corrupted = np.zeros(config.num_clients, bool)
        if config.corrupted_share > 0:
            examples_of_corrupted, split, corrupted = corrupt_clients(
                examples,
                split,
                first_copy=num_rows,
                settings=config,
                num_classes=dataset.num_classes,
                root=prng.root_key(seed),
            )
            changed.append(examples_of_corrupted)
            num_rows += len(examples_of_corrupted.labels)
        names = loading.client_names(config, dataset, parts)
        dealt[seed] = split, corrupted, copies, names
    by_cell = [dealt[config.seed] for config in configs]
    splits, corrupted_clients, most_copies, client_names = zip(*by_cell, strict=True)
    split = train_validation.stack_splits(splits)
    if len(changed) > 1:
        examples = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *changed)
    counts = train_validation.attribute_counts(
        split.train,
        split.num_train,
        np.asarray(examples.attributes),
        len(attributes.names),
    )
    tested = loading.test_attributes(first, dataset)
    return FederatedData(
        examples=examples,
        test=preprocessing.device_examples(
            dataset.test_inputs, dataset.test_labels, tested, dataset.test_targets
        ),
        split=split,
        game=game_of(first, dataset, attributes, tested, counts),
        num_train=np.asarray(split.num_train),
        most_copies=most_copies,
        from_records=_from_records(first, dataset),
        num_classes=dataset.num_classes,
        corrupted=np.stack(corrupted_clients),
        fingerprint=fingerprint,
        warmup=warmup,
        validation=chooses,
        client_names=client_names[0],
        rows_per_person=dataset.rows_per_person,
        bought=dataset.schema.bought if dataset.schema else (0, 0.0),
    )


def _from_records(config: AttributeSettings, dataset: Dataset) -> Names:
    name = config.column
    public = name is None or dataset.columns[name].public
    attributes = () if public else (f"the categories of {name}",)
    return tuple(dict.fromkeys((*dataset.from_records, *attributes)))
