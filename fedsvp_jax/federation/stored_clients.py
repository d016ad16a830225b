"""A store's clients as a federation: what a run in memory has, to the number."""

from pathlib import Path

import jax
import numpy as np

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.settings import FEATURE_MODELS
from fedsvp_jax.data import partition, preprocessing, train_validation
from fedsvp_jax.data.dataset import ClientStore
from fedsvp_jax.data.store.clients import StoredClients
from fedsvp_jax.data.store.folder import open_store
from fedsvp_jax.round import cohort

from . import loading
from .client_data import FederatedData, division_of, game_of
from .cohort_stream import CohortReader


def load(config: ResolvedConfig) -> ClientStore:
    """The store of `config.data_dir`.

    Raises:
      ValueError, OSError: it is not fit for the model, or cannot be read.
    """
    if config.data_dir is None:
        raise ValueError("dataset store needs data_dir, where its files are")
    store = open_store(Path(config.data_dir).expanduser())
    if config.model == "paper_cnn" and store.example_shape == (28, 28, 1):
        raise ValueError(
            "model paper_cnn takes 32×32×3 images, which a store is not enlarged to; "
            "use model=leaf_cnn"
        )
    if config.model in FEATURE_MODELS:
        raise ValueError(
            f"model {config.model} needs the images in memory, where their features "
            "are computed; name the data set that the store was made of"
        )
    loading.check_inputs(config, store.example_shape)
    return loading.evaluated_on(store, config.max_test_examples)


def federate(config: ResolvedConfig, store: ClientStore) -> FederatedData:
    """The federation of a store's clients, equal to that of a run in memory.

    Raises:
      ValueError: the partition is not `by_writer`: a store knows its clients.
    """
    if config.partition != "by_writer":
        raise ValueError(
            "partition must be by_writer for dataset store, whose clients are given, "
            f"got {config.partition}"
        )
    if config.influence_filter != "none" or config.corrupted_share > 0:
        raise ValueError(
            "influence_filter must be none and corrupted_share 0 for dataset store: "
            "both need every client's examples at hand"
        )
    fingerprint = store.fingerprint
    store, chooses = loading.withhold_validation(config, store)
    classes = np.arange(store.num_classes, dtype=np.int32)
    attributes = loading.attributes_of(config, store, classes, {})
    clients = StoredClients(
        store=store,
        chosen=partition.draw_writers(
            store.clients[:, 1],
            config.num_clients,
            min_examples=train_validation.least_examples(
                config.dataset, config.batch_size, config.train_fraction
            ),
            seed=config.seed,
        ),
        attribute_table=attributes.ids,
        num_attributes=config.num_attributes,
        division=division_of(config, attributes.private),
    )
    train, validation = clients.attribute_counts()
    num_train, num_validation = train.sum(1), validation.sum(1)
    sizes = np.sort(num_train + num_validation)
    reader = CohortReader(
        clients,
        cohort_size=config.cohort_size,
        num_examples=int(sizes[-config.cohort_size :].sum()),
        longest_train=int(num_train.max()),
        longest_validation=int(num_validation.max()),
    )
    nobody = np.full(config.cohort_size, cohort.NOBODY, np.int32)
    empty = reader.read(nobody)
    tested = loading.test_attributes(config, store)
    return FederatedData(
        examples=empty.examples,
        test=preprocessing.device_examples(
            store.test_inputs, store.test_labels, tested
        ),
        split=jax.tree.map(lambda leaf: leaf[None], empty.split),
        game=game_of(config, store, attributes, tested, train),
        num_train=num_train[None],
        most_copies=(store.most_copies,),
        from_records=store.from_records,
        num_classes=store.num_classes,
        corrupted=np.zeros((1, config.num_clients), bool),
        fingerprint=fingerprint,
        validation=chooses,
        reader=reader,
    )
