"""Clients on disk: one folder of mapped arrays, for clients that exceed the memory.

    store.json              name, classes, fingerprint
    inputs.bin, labels.bin  all clients' examples, one client after another: bytes of
                            the types and shapes of the test examples
    clients.npz             clients, (S, 2) int64: each one's first row and row count;
                            digests, (S, 32) uint8: SHA-256 of each one's examples;
                            test_inputs, test_labels

The clients' examples are mapped into memory, so that the system can drop what was read
when memory is short. A client's examples are compared with their digest whenever
they are read.
"""

import hashlib
import json
from pathlib import Path

import numpy as np

from fedsvp_jax.core.files import Record

from ..dataset import ClientStore, Part
from ..tables import files

VERSION = 3
FACTS = ("num_classes", "most_copies", "from_records")  # that the fingerprint binds
ARRAYS = ("clients", "digests", "test_inputs", "test_labels")


def examples_of(store: ClientStore, client: int) -> Part:
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


def fingerprint_of(arrays: dict[str, np.ndarray], facts: Record) -> str:
    """SHA-256 of everything but the clients' examples, which have their digests."""
    digest = hashlib.sha256(json.dumps([facts[name] for name in FACTS]).encode())
    for name in ARRAYS:
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def open_store(folder: Path) -> ClientStore:
    """Opens a store that `writer` made.

    The sum of all but the clients' examples is compared; these are checked when they
    are read.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file is damaged, or the files do not fit together.
    """
    text = (folder / "store.json").read_bytes()
    try:
        about = json.loads(text)
        if about["version"] != VERSION:
            raise ValueError(f"version {about['version']}")
        fields = {key: about[key] for key in ("name", "fingerprint", *FACTS)}
        fields["from_records"] = tuple(map(str, fields["from_records"]))
        arrays: Record = files.read_arrays(folder / "clients.npz")
        if fields["fingerprint"] != fingerprint_of(arrays, fields):
            raise ValueError("it differs from the SHA-256 in store.json")
        rows = int(arrays["clients"][:, 1].sum())
        mapped: Record = {
            f"train_{kind}": np.memmap(
                folder / f"{kind}.bin", like.dtype, "r", shape=(rows, *like.shape[1:])
            )
            for kind in ("inputs", "labels")
            for like in [arrays[f"test_{kind}"]]
        }
    except FileNotFoundError:
        raise
    except Exception as error:  # json, zipfile and numpy raise many types
        raise ValueError(
            f"the client store {folder} is damaged ({files.reason(error)}); put a copy "
            f"of it back or build it again (build_store, version {VERSION})"
        ) from error
    return ClientStore(
        public_test=about.get("public_test") is True, **fields, **arrays, **mapped
    )
