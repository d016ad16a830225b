"""Writes clients on disk, one at a time, as `folder` opens them."""

import collections
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedsvp_jax.core.files import Record, sync, write_json

from ..dataset import ClientStore, Dataset, Names
from .folder import FACTS, VERSION, digest_of, fingerprint_of, open_store


class ClientExamples(NamedTuple):
    """One client's examples, as `write_store` takes them.

    (`clients.HeldExamples` are a client's examples as a run reads them.)
    """

    name: str | int  # clients are numbered in the order of their names
    inputs: np.ndarray  # (n, *example_shape) uint8 or float32
    labels: np.ndarray  # (n,) int32


class StoreSource(NamedTuple):
    """The input of `write_store`: a data set whose clients come one by one."""

    name: str  # the data set's
    clients: Iterable[ClientExamples]  # in any order; empty ones are left out
    test_inputs: np.ndarray  # (m, *example_shape)
    test_labels: np.ndarray  # (m,) int32
    num_classes: int
    most_copies: int = 1  # the most clients that hold one example
    from_records: Names = ()  # as `Dataset` has it
    public_test: bool = False  # likewise


def write_store(folder: Path, stream: StoreSource) -> ClientStore:
    """Writes a store in one pass over the clients and opens it.

    One client is in memory at a time. The folder gets its name when it is complete and
    on the disk.

    Raises:
      ValueError: the folder exists, arrays contradict one another, two clients have the
        same name, or no client holds an example.
    """
    if folder.exists():
        raise ValueError(f"output_dir {folder} exists; give a new folder")
    beside = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        _write(beside, stream)
        for path in (*beside.iterdir(), beside):
            sync(path)
        beside.rename(folder)
        sync(folder.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return open_store(folder)


def _write(folder: Path, stream: StoreSource) -> None:
    test = ClientExamples("the test set", stream.test_inputs, stream.test_labels)
    test = _checked(test, test, stream.num_classes)
    clients: list[tuple[Any, bytes, int]] = []
    with (
        (folder / "inputs.bin").open("wb") as inputs,
        (folder / "labels.bin").open("wb") as labels,
    ):
        for examples in stream.clients:
            if not len(examples.labels):
                continue
            client = _checked(examples, test, stream.num_classes)
            for file, array in ((inputs, client.inputs), (labels, client.labels)):
                file.write(np.ascontiguousarray(array).data)
            digest = digest_of(client.inputs, client.labels)
            clients.append((client.name, digest, len(client.labels)))
    if not clients:
        raise ValueError(
            "no client holds an example; a store needs at least one client"
        )
    names, digests, sizes = zip(*clients, strict=True)
    [(name, count)] = collections.Counter(names).most_common(1)
    if count > 1:
        raise ValueError(f"client {name} comes twice; every name must be unique")
    order = sorted(range(len(names)), key=names.__getitem__)
    sums = np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), -1)
    arrays: Record = {
        "clients": np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)[order],
        "digests": sums[order],
        "test_inputs": test.inputs,
        "test_labels": test.labels,
    }
    np.savez(folder / "clients.npz", **arrays)
    facts = {name: getattr(stream, name) for name in FACTS}
    about = {
        "version": VERSION,
        "name": stream.name,
        "public_test": stream.public_test,
        **facts,
        "fingerprint": fingerprint_of(arrays, facts),
    }
    write_json(folder / "store.json", about)


def _checked(
    client: ClientExamples, test: ClientExamples, num_classes: int
) -> ClientExamples:
    """The examples as a `Dataset` takes them; raises its ValueError."""
    like = test.inputs[:1], test.labels[:1]
    name = f"store, client {client.name}"
    dataset = Dataset(name, client.inputs, client.labels, *like, num_classes)
    return client._replace(inputs=dataset.train_inputs, labels=dataset.train_labels)
