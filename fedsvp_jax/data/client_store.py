"""Clients on disk: one folder of mapped arrays, for clients that exceed the memory.

    store.json                      sizes, classes, fingerprint
    inputs.npy, labels.npy          all clients' examples, one client after another
    clients.npy                     (S, 2) int64: each client's first row and row count
    digests.npy                     (S, 32) uint8: SHA-256 of each client's examples
    test_inputs.npy, test_labels.npy

The arrays are written in one pass, one client at a time. They are read by mapping the
files into memory, so that the system can drop what was read when memory is short. A
client's examples are compared with their digest whenever they are read.
"""

import collections
import contextlib
import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from fedsvp_jax.data.formats import files

_VERSION = 2
_FACTS = ("num_classes", "most_copies", "from_records")  # that the fingerprint binds
_ARRAYS = ("inputs", "labels", "clients", "digests", "test_inputs", "test_labels")


class ClientExamples(NamedTuple):
    """One client's examples, as `write_store` takes them.

    (`stored_clients.HeldExamples` are a client's examples as a run reads them.)
    """

    name: str | int  # clients are numbered in the order of their names
    inputs: np.ndarray  # (n, *example_shape) uint8 or float32
    labels: np.ndarray  # (n,) int32


class StoreSource(NamedTuple):
    """What a store is written from: a data set whose clients come one by one."""

    name: str  # the data set's
    clients: Iterable[ClientExamples]  # in any order; empty ones are left out
    test_inputs: np.ndarray  # (m, *example_shape)
    test_labels: np.ndarray  # (m,) int32
    num_classes: int
    most_copies: int = 1  # the most clients that hold one example
    from_records: tuple[str, ...] = ()  # as `Dataset` has it


@dataclasses.dataclass(frozen=True)
class ClientStore:
    """A data set on disk, by client.

    All its arrays are mapped, except `clients` and `digests`, which are in memory.

    Attributes:
      name: the data set that the store was made from.
      train_inputs: (n, *example_shape) uint8 or float32.
      train_labels: (n,) int32 in [0, num_classes).
      clients: (S, 2) int64: each client's first row and number of rows (at least 1).
      digests: (S, 32) uint8: SHA-256 of each client's examples.
      test_inputs: (m, *example_shape).
      test_labels: (m,) int32.
      num_classes: number of classes.
      fingerprint: SHA-256 of the digests and of what is not the clients'.
      most_copies: the most clients that hold one example.
      from_records: as `Dataset` has it.
    """

    name: str
    train_inputs: np.ndarray
    train_labels: np.ndarray
    clients: np.ndarray
    digests: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray
    num_classes: int
    fingerprint: str
    most_copies: int = 1
    from_records: tuple[str, ...] = ()

    @property
    def example_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.train_inputs.shape[1:]

    def rows(self, client: int) -> slice:
        """The rows of one client in `train_inputs` and `train_labels`."""
        first, count = self.clients[client].tolist()
        return slice(first, first + count)

    def examples(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """`(inputs, labels)` of one client.

        Raises:
          ValueError: they are not those that were written.
        """
        rows = self.rows(client)
        inputs, labels = self.train_inputs[rows], self.train_labels[rows]
        if _digest(inputs, labels) != self.digests[client].tobytes():
            raise ValueError(
                f"the client store {self.name} is damaged: the examples of its client "
                f"{client} differ from their SHA-256; put a copy of it back or build "
                "it again"
            )
        return inputs, labels


def _digest(inputs: np.ndarray, labels: np.ndarray) -> bytes:
    digest = hashlib.sha256(np.ascontiguousarray(inputs).data)
    digest.update(np.ascontiguousarray(labels).data)
    return digest.digest()


def _fingerprint(arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> str:
    """SHA-256 of everything but the clients' examples, which have their digests."""
    digest = hashlib.sha256(json.dumps([facts[name] for name in _FACTS]).encode())
    for name in ("clients", "digests", "test_inputs", "test_labels"):
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def open_store(folder: Path) -> ClientStore:
    """Opens a store that `write_store` made.

    Types and sizes of all arrays are checked, and the sum of all but the clients'
    examples, which are checked when they are read.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file is damaged, or the files do not fit together.
    """
    text = files.read_bytes(folder / "store.json", what="a client store")
    try:
        about = json.loads(text)
        if about["version"] != _VERSION:
            raise ValueError(f"version {about['version']}")
        known = {key: about[key] for key in ("name", "fingerprint", *_FACTS)}
        known["from_records"] = tuple(map(str, known["from_records"]))
        shapes = {name: (tuple(s), t) for name, (s, t) in about["arrays"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{folder / 'store.json'} is damaged ({error!r}); it must be written by "
            f"experiments.build_store, version {_VERSION}"
        ) from error
    arrays = {}
    for name in _ARRAYS:
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
    if known["fingerprint"] != _fingerprint(arrays, known):
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
        **known,
    )


def write_store(folder: Path, stream: StoreSource) -> ClientStore:
    """Writes a store in one pass over the clients and opens it.

    One client is in memory at a time. The folder gets its name when it is complete and
    on the disk.

    Args:
      folder: must not exist yet.
      stream: the clients and the server's test set.

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
            files.sync(path)
        beside.rename(folder)
        files.sync(folder.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return open_store(folder)


def _write(folder: Path, stream: StoreSource) -> None:
    test = ClientExamples("the test set", stream.test_inputs, stream.test_labels)
    _check(test, test, stream.num_classes)
    names: list[Any] = []
    digests: list[bytes] = []
    places: list[tuple[int, int]] = []
    num_rows = 0
    with (
        _growing(folder / "inputs.npy", test.inputs) as inputs,
        _growing(folder / "labels.npy", test.labels) as labels,
    ):
        for client in stream.clients:
            if not len(client.labels):
                continue
            _check(client, test, stream.num_classes)
            for file, array in ((inputs, client.inputs), (labels, client.labels)):
                file.write(np.ascontiguousarray(array).data)
            digests.append(_digest(client.inputs, client.labels))
            names.append(client.name)
            places.append((num_rows, len(client.labels)))
            num_rows += len(client.labels)
    if not places:
        raise ValueError(
            "no client holds an example; a store needs at least one client"
        )
    if len(set(names)) < len(names):
        (twice, _), *_ = collections.Counter(names).most_common(1)
        raise ValueError(f"client {twice} comes twice; every name must be unique")
    order = sorted(range(len(names)), key=names.__getitem__)
    np.save(folder / "clients.npy", np.asarray(places, np.int64)[order])
    sums = np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), -1)
    np.save(folder / "digests.npy", sums[order])
    for kind, array in (("inputs", test.inputs), ("labels", test.labels)):
        np.save(folder / f"test_{kind}.npy", array)
    arrays = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        for name in _ARRAYS
    }
    facts = {name: getattr(stream, name) for name in _FACTS}
    about = {
        "version": _VERSION,
        "name": stream.name,
        **facts,
        "fingerprint": _fingerprint(arrays, facts),
        "arrays": {key: (a.shape, a.dtype.str) for key, a in arrays.items()},
    }
    (folder / "store.json").write_text(json.dumps(about, indent=2) + "\n")


def _check(client: ClientExamples, test: ClientExamples, num_classes: int) -> None:
    inputs, labels = client.inputs, client.labels
    if inputs.dtype not in (np.uint8, np.float32) or inputs.ndim < 2:
        raise ValueError(
            f"client {client.name}: inputs must be uint8 or float32 with an axis of "
            f"examples, got {inputs.dtype} of the shape {inputs.shape}"
        )
    if (inputs.dtype, inputs.shape[1:]) != (test.inputs.dtype, test.inputs.shape[1:]):
        raise ValueError(
            f"client {client.name}: examples are {inputs.dtype} of the shape "
            f"{inputs.shape[1:]}, the test set's {test.inputs.dtype} of "
            f"{test.inputs.shape[1:]}; they must agree"
        )
    if labels.dtype != np.int32 or labels.shape != inputs.shape[:1] or not len(labels):
        raise ValueError(
            f"client {client.name}: labels must be int32, one for each of "
            f"{len(inputs)} examples, got {labels.dtype} of the shape {labels.shape}"
        )
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(
            f"client {client.name}: labels must be in [0, {num_classes}), got "
            f"{labels.min()} to {labels.max()}"
        )
    if inputs.dtype == np.float32 and not np.isfinite(inputs).all():
        raise ValueError(
            f"client {client.name}: inputs hold NaN or infinity; every feature must "
            "be finite"
        )


@contextlib.contextmanager
def _growing(path: Path, like: np.ndarray) -> Iterator[IO[bytes]]:
    """An .npy file that rows can be appended to.

    The header is overwritten at the end, with the number of rows. Its length does not
    change, since numpy's header keeps room for the first axis to grow.
    """
    row_bytes = like.dtype.itemsize * int(np.prod(like.shape[1:], dtype=np.int64))

    def header(num_rows: int) -> None:
        shape = (num_rows, *like.shape[1:])
        about = {"descr": like.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)

    with open(path, "wb") as file:
        header(0)
        start = file.tell()
        yield file
        num_rows = (file.tell() - start) // row_bytes
        file.seek(0)
        header(num_rows)
        if file.tell() != start:
            raise ValueError(
                f"{path}: {num_rows} rows are too many for the header of an .npy file"
            )
