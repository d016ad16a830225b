"""The clients of a named data set, one after another, for a store."""

from pathlib import Path

import numpy as np

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.data import partition, sources
from fedsvp_jax.data.datasets import leaf
from fedsvp_jax.data.store.writer import ClientExamples, StoreSource

from . import loading


def store_source(config: ResolvedConfig) -> StoreSource:
    """The clients of `config.dataset` under `config.partition`.

    By writer, every writer is a client, whatever `config.num_clients` is: a run draws
    from them. LEAF's users are read a json file at a time; other data sets are in
    memory while their store is built.

    Args:
      config: the seed and the settings of data and partition are read.

    Raises:
      FileNotFoundError, ValueError: the data cannot be read or divided.
    """
    by_writer = config.partition == "by_writer"
    if config.dataset == "femnist" and by_writer and config.data_dir is not None:
        return leaf.stream_femnist(Path(config.data_dir).expanduser())
    source = sources.load(config.dataset, config.data_dir, config)
    if source.train_persons is not None:
        raise ValueError(
            f"dataset {config.dataset} has a person column, which a store does not "
            "keep: train on the table itself, or leave [person] out of the schema"
        )
    if source.schema is not None and source.schema.bought[0]:
        raise ValueError(
            f"dataset {config.dataset} has bounds that were bought (private_bounds), "
            "whose ε a store does not keep: train on the table itself, or state the "
            "bounds"
        )
    parts = (
        loading.client_parts(config, source)
        if source.train_writers is None or not by_writer
        else partition.rows_by_owner(source.train_writers)
    )
    return StoreSource(
        name=source.name,
        clients=(
            ClientExamples(number, source.train_inputs[rows], source.train_labels[rows])
            for number, rows in enumerate(parts)
        ),
        test_inputs=source.test_inputs,
        test_labels=source.test_labels,
        num_classes=source.num_classes,
        most_copies=int(np.bincount(np.concatenate(parts)).max()),
        from_records=source.from_records,
        public_test=source.public_test,
    )
