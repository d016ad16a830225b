"""Stores small enough for a test, and the same data in memory."""

import pathlib
from collections.abc import Sequence

import numpy as np
from small_runs import digits

from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.data.store.writer import ClientExamples, StoreSource, write_store

SIZES = (40, 25, 90, 60, 33, 120, 51, 28, 77, 45)  # clients of `digits_store`


def digits_store(folder: pathlib.Path, sizes: Sequence[int] = SIZES) -> ClientStore:
    """Digits, cut into clients of these sizes, which arrive out of order."""
    data = digits()
    ends = np.cumsum(sizes)
    clients = [
        ClientExamples(
            number,
            data.train_inputs[end - size : end],
            data.train_labels[end - size : end],
        )
        for number, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]
    return write_store(
        folder,
        StoreSource(
            name=data.name,
            clients=clients[1::2] + clients[::2],
            test_inputs=data.test_inputs,
            test_labels=data.test_labels,
            num_classes=data.num_classes,
        ),
    )


def in_memory(store: ClientStore) -> Dataset:
    """The store's content as one data set with writers."""
    rows = [store.rows(client) for client in range(len(store.clients))]
    writers = np.arange(len(rows), dtype=np.int32)
    return Dataset(
        name="in memory",
        train_inputs=np.concatenate([store.train_inputs[r] for r in rows]),
        train_labels=np.concatenate([store.train_labels[r] for r in rows]),
        test_inputs=np.array(store.test_inputs),
        test_labels=np.array(store.test_labels),
        num_classes=store.num_classes,
        train_writers=np.repeat(writers, store.clients[:, 1]),
    )
