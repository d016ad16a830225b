"""A store gives back what went in, and refuses what does not fit together."""

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsvp_jax.data.store.folder import ARRAYS, examples_of, open_store
from fedsvp_jax.data.store.writer import ClientExamples, StoreSource, write_store


def client(name: str | int, count: int, **changes: Any) -> ClientExamples:
    rng = np.random.default_rng(count)
    inputs = rng.integers(0, 256, (count, 3, 3, 1), dtype=np.uint8)
    labels = (np.arange(count) % 4).astype(np.int32)
    return ClientExamples(name, inputs, labels)._replace(**changes)


def stream(*clients: ClientExamples) -> StoreSource:
    test = client("test", 6)
    return StoreSource("tiny", iter(clients), test.inputs, test.labels, 4)


def test_clients_come_back_in_the_order_of_their_names(tmp_path: Path) -> None:
    given = {"mia": client("mia", 5), "ada": client("ada", 2), "bo": client("bo", 9)}
    store = write_store(tmp_path / "store", stream(*given.values()))
    assert len(store.clients) == 3
    for number, name in enumerate(sorted(given)):
        rows = store.rows(number)
        np.testing.assert_array_equal(store.train_inputs[rows], given[name].inputs)
        np.testing.assert_array_equal(store.train_labels[rows], given[name].labels)
    np.testing.assert_array_equal(store.test_inputs, client("test", 6).inputs)
    assert store.example_shape == (3, 3, 1) and store.num_classes == 4
    assert store.name == "tiny"
    assert isinstance(store.train_inputs, np.memmap)  # and not read
    assert isinstance(store.train_labels, np.memmap)


def test_the_fingerprint_is_the_contents(tmp_path: Path) -> None:
    first = write_store(tmp_path / "1", stream(client(0, 4), client(1, 3)))
    again = write_store(tmp_path / "2", stream(client(0, 4), client(1, 3)))
    other = client(1, 3)
    other.inputs[2, 1, 1, 0] ^= 1
    changed = write_store(tmp_path / "3", stream(client(0, 4), other))
    assert first.fingerprint == again.fingerprint != changed.fingerprint
    for field in dataclasses.fields(first):
        values = (getattr(first, field.name), getattr(again, field.name))
        np.testing.assert_array_equal(*values)


WRONG = {
    "no client": ([], "no client holds an example"),
    "twice": ([client(3, 2), client(3, 4)], "client 3 comes twice"),
    "labels out of range": (
        [client(0, 2, labels=np.asarray([0, 4], np.int32))],
        "client 0: train labels must be from 0 to 3, got 4",
    ),
    "another shape": (
        [client(0, 2), client(1, 2, inputs=np.zeros((2, 4), np.uint8))],
        "client 1: training examples are .* must agree",
    ),
    "another type": (
        [client(0, 2, inputs=np.zeros((2, 3, 3, 1), np.float32))],
        "client 0: training examples are float32",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_and_nothing_stays(
    case: str, tmp_path: Path
) -> None:
    clients, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        write_store(tmp_path / "store", stream(*clients))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with pytest.raises(ValueError, match=r"output_dir .* exists; give"):
        write_store(tmp_path / "store", stream(client(0, 4)))
    assert not list((tmp_path / "store").iterdir())


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _beyond(path: Path, name: str) -> None:
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    np.savez(path, **(arrays | {name: arrays[name] + 100}))


def _other_version(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("inputs.bin", _cut, "damaged .mmap length"),
        ("labels.bin", Path.unlink, "labels.bin"),
        ("clients.npz", _cut, "damaged .File is not a zip file"),
        *(
            ("clients.npz", partial(_beyond, name=name), "differs from the SHA-256 in")
            for name in ARRAYS
        ),
        ("store.json", _cut, "is damaged"),
        ("store.json", _other_version, "is damaged .*version 99"),
        ("store.json", Path.unlink, "No such file .*store.json"),
    ],
)
def test_a_damaged_store_is_refused(
    name: str, damage: Callable[[Path], Any], message: str, tmp_path: Path
) -> None:
    write_store(tmp_path / "store", stream(client(0, 4), client(1, 3)))
    damage(tmp_path / "store" / name)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        open_store(tmp_path / "store")


def test_a_client_whose_examples_were_changed_is_refused_when_it_is_read(
    tmp_path: Path,
) -> None:
    """A store's fingerprint was written and never compared."""
    store = write_store(tmp_path / "store", stream(client(0, 4), client(1, 3)))
    file = tmp_path / "store" / "inputs.bin"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    store = open_store(tmp_path / "store")
    examples_of(store, 0)
    with pytest.raises(ValueError, match="examples of its client 1 differ"):
        examples_of(store, 1)
