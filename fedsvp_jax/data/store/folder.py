"""Clients on disk: one folder of mapped arrays, for clients that exceed the memory.

    store.json                      sizes, classes, fingerprint
    inputs.npy, labels.npy          all clients' examples, one client after another
    clients.npy                     (S, 2) int64: each client's first row and row count
    digests.npy                     (S, 32) uint8: SHA-256 of each client's examples
    test_inputs.npy, test_labels.npy

They are read by mapping the files into memory, so that the system can drop what was
read when memory is short. A client's examples are compared with their digest whenever
they are read.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.data.dataset import ClientStore, Facts
from fedsvp_jax.data.tables import files

VERSION = 2
FACTS = ("num_classes", "most_copies", "from_records")  # that the fingerprint binds
ARRAYS = ("inputs", "labels", "clients", "digests", "test_inputs", "test_labels")


def examples_of(store: ClientStore, client: int) -> tuple[np.ndarray, np.ndarray]:
    """`(inputs, labels)` of one client.

    Raises:
      ValueError: they are not those that were written.
    """
    rows = store.rows(client)
    inputs, labels = store.train_inputs[rows], store.train_labels[rows]
    if digest_of(inputs, labels) != store.digests[client].tobytes():
        raise ValueError(
            f"the client store {store.name} is damaged: the examples of its client "
            f"{client} differ from their SHA-256; put a copy of it back or build "
            "it again"
        )
    return inputs, labels


def digest_of(inputs: np.ndarray, labels: np.ndarray) -> bytes:
    """SHA-256 of one client's examples."""
    digest = hashlib.sha256(np.ascontiguousarray(inputs).data)
    digest.update(np.ascontiguousarray(labels).data)
    return digest.digest()


def fingerprint_of(arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> str:
    """SHA-256 of everything but the clients' examples, which have their digests."""
    digest = hashlib.sha256(json.dumps([facts[name] for name in FACTS]).encode())
    for name in ("clients", "digests", "test_inputs", "test_labels"):
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def open_store(folder: Path) -> ClientStore:
    """Opens a store that `writer` made.

    Types and sizes of all arrays are checked, and the sum of all but the clients'
    examples, which are checked when they are read.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file is damaged, or the files do not fit together.
    """
    text = files.read_bytes(folder / "store.json", needed_by="a client store")
    try:
        about = json.loads(text)
        if about["version"] != VERSION:
            raise ValueError(f"version {about['version']}")
        fields = {key: about[key] for key in ("name", "fingerprint", *FACTS)}
        fields["from_records"] = tuple(map(str, fields["from_records"]))
        fields["public_test"] = about.get("public_test") is True
        shapes = {name: (tuple(s), t) for name, (s, t) in about["arrays"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{folder / 'store.json'} is damaged ({error!r}); it must be written by "
            f"experiments.build_store, version {VERSION}"
        ) from error
    arrays = {}
    for name in ARRAYS:
        path = folder / f"{name}.npy"
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing; a client store needs it")
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # numpy parses the header as Python
            raise ValueError(
                f"{path} is damaged ({files.reason(error)}); it must hold the array "
                "that store.json describes"
            ) from error
        if shapes.get(name) != (array.shape, array.dtype.str):
            raise ValueError(
                f"{path} holds {array.dtype.str} of the shape {array.shape}; "
                f"store.json describes {shapes.get(name)}"
            )
        arrays[name] = array
    clients = np.array(arrays["clients"])
    first, count = clients.T
    if (
        first.min() < 0
        or count.min() < 1
        or (first + count).max() > len(arrays["labels"])
    ):
        raise ValueError(
            f"{folder / 'clients.npy'} names rows beyond the {len(arrays['labels'])} "
            "of labels.npy, or a client without rows"
        )
    if fields["fingerprint"] != fingerprint_of(arrays, fields):
        raise ValueError(
            f"the client store {folder} is damaged: it differs from the SHA-256 in "
            "store.json; put a copy of it back or build it again"
        )
    return ClientStore(
        train_inputs=arrays["inputs"],
        train_labels=arrays["labels"],
        clients=clients,
        digests=np.array(arrays["digests"]),
        test_inputs=arrays["test_inputs"],
        test_labels=arrays["test_labels"],
        **fields,
    )


def store_facts(folder: Path) -> Facts:
    """The facts that defaults depend on; empty where there is no store yet.

    Raises:
      OSError, ValueError: as `open_store`.
    """
    if not (folder / "store.json").is_file():
        return Facts()
    store = open_store(folder)
    return Facts(len(store.train_labels), store.clients[:, 1])
