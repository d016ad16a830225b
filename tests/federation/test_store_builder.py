"""LEAF, .npz and TFDS as streams of clients: the examples that their readers give."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds
import tiny_files
from tfds_builders import RegisteredScans

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data import sources
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.data.datasets import leaf
from fedsvp_jax.data.store.folder import open_store
from fedsvp_jax.data.store.writer import write_store
from fedsvp_jax.federation import store_builder


def build(
    root: Path, data_dir: Path | None, dataset: str, **changes: Any
) -> ClientStore:
    where = str(data_dir) if data_dir else None
    settings = {"cohort_size": 1, "num_hbc_clients": 0, "batch_size": 1} | changes
    config = resolve(ExperimentConfig(dataset=dataset, data_dir=where, **settings))
    return write_store(root / "store", store_builder.store_source(config))


def check_writers(store: ClientStore, name: str, data_dir: Path) -> None:
    """Every writer is a client, with its examples in the order of the file."""
    whole = sources.load(name, data_dir)
    assert whole.train_writers is not None
    assert len(store.clients) == whole.train_writers.max() + 1
    for writer in range(len(store.clients)):
        rows, own = store.rows(writer), whole.train_writers == writer
        np.testing.assert_array_equal(store.train_inputs[rows], whole.train_inputs[own])
        np.testing.assert_array_equal(store.train_labels[rows], whole.train_labels[own])
    np.testing.assert_array_equal(store.test_inputs, whole.test_inputs)
    np.testing.assert_array_equal(store.test_labels, whole.test_labels)
    assert store.num_classes == whole.num_classes


def test_leaf_users_are_clients_in_the_order_of_their_names(tmp_path: Path) -> None:
    data_dir = tiny_files.write_femnist(tmp_path)
    check_writers(build(tmp_path, data_dir, "femnist"), "femnist", data_dir)


def test_leaf_files_are_read_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    load = leaf._load_json

    def watched(path: Path) -> dict[str, Any]:
        read.append(path.name)
        return load(path)

    monkeypatch.setattr(leaf, "_load_json", watched)
    clients = iter(leaf.stream_femnist(tiny_files.write_femnist(tmp_path)).clients)
    read.clear()
    assert [next(clients).name, next(clients).name] == ["b", "a"]
    assert read == ["all_data_0.json"]
    assert next(clients).name == "c" and len(read) == 2


def test_a_leaf_user_of_two_files_is_refused(tmp_path: Path) -> None:
    data_dir = tiny_files.write_femnist(tmp_path)
    again = data_dir / "femnist/train/all_data_2.json"
    again.write_text(json.dumps(tiny_files.leaf_body({"a": [3]})))
    with pytest.raises(ValueError, match="user a comes twice"):
        build(tmp_path, data_dir, "femnist")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_writers_are_clients(save: Any, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    save(path, **tiny_files.npz_arrays())
    store = build(tmp_path, path, "npz", partition="by_writer")
    check_writers(store, "npz", path)


def labelled(data: ClientStore | Dataset) -> dict[bytes, int]:
    """The label of each training image."""
    images, labels = data.train_inputs, data.train_labels
    return {image.tobytes(): y for image, y in zip(images, labels, strict=True)}


def test_tfds_examples_are_divided(tmp_path: Path) -> None:
    tfds.display_progress_bar(False)
    made = RegisteredScans(data_dir=tmp_path, file_format="array_record")
    made.download_and_prepare()
    name = "tfds:registered_scans"
    whole = sources.load(name, tmp_path)
    store = build(tmp_path, tmp_path, name, partition="iid", num_clients=3, seed=1)
    np.testing.assert_array_equal(store.clients[:, 1], [4, 4, 4])
    assert labelled(store) == labelled(whole)
    np.testing.assert_array_equal(store.test_inputs, whole.test_inputs)
    assert store.num_classes == 4


def test_data_without_writers_are_divided_by_the_named_partition(
    tmp_path: Path,
) -> None:
    changes = {"partition": "paper", "class_share": 0.01, "num_clients": 12}
    store = build(tmp_path, None, "digits", **changes, seed=2)
    kinds = [len(set(store.train_labels[store.rows(c)].tolist())) for c in range(12)]
    assert len(store.clients) == 12 and min(kinds) == 10  # a row or two of each


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("digits", "partition=by_writer needs writers; dataset digits has none"),
        ("npz", "dataset npz needs data_dir"),
    ],
)
def test_what_has_no_clients_is_refused(
    dataset: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        build(tmp_path, None, dataset, partition="by_writer")
    assert not (tmp_path / "store").exists()


@pytest.mark.hole
def test_a_store_says_who_holds_a_record_and_what_the_records_told(
    tmp_path: Path,
) -> None:
    data_dir = tiny_files.write_npz(tmp_path)
    settings = {"partition": "paper", "class_share": 1.0, "num_clients": 3}
    store = build(tmp_path, data_dir, "npz", **settings)
    assert (store.most_copies, store.from_records) == (3, ("the number of classes",))
    about = tmp_path / "store" / "store.json"
    about.write_text(about.read_text().replace('"most_copies": 3', '"most_copies": 1'))
    with pytest.raises(ValueError, match="differs from the SHA-256"):
        open_store(tmp_path / "store")
