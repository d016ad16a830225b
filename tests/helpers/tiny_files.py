"""Writes tiny data sets in every format, with known contents."""

import csv
import gzip
import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.data.dataset import Column, Dataset


def images(count: int, side: int, channels: int, *, seed: int = 0) -> np.ndarray:
    """Random uint8 images (count, side, side, channels)."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, side, side, channels), dtype=np.uint8)


def cifar_records(pixels: np.ndarray, *labels: np.ndarray) -> bytes:
    """Label bytes, then the planes of each image."""
    planes = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
    heads = [np.asarray(column, np.uint8)[:, None] for column in labels]
    return np.concatenate([*heads, planes], axis=1).tobytes()


def write_cifar10(root: Path) -> Path:
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    for batch in range(5):
        data = cifar_records(images(4, 32, 3, seed=batch), np.arange(4) + batch)
        (folder / f"data_batch_{batch + 1}.bin").write_bytes(data)
    data = cifar_records(images(3, 32, 3, seed=9), np.array([9, 0, 1]))
    (folder / "test_batch.bin").write_bytes(data)
    return root


def write_cifar100(root: Path) -> Path:
    folder = root / "cifar-100-binary"
    folder.mkdir()
    data = cifar_records(images(3, 32, 3), np.array([19, 0, 1]), np.array([99, 0, 7]))
    (folder / "train.bin").write_bytes(data)
    data = cifar_records(images(2, 32, 3, seed=1), np.array([1, 2]), np.array([3, 4]))
    (folder / "test.bin").write_bytes(data)
    return root


def idx_bytes(values: np.ndarray) -> bytes:
    """An idx file of unsigned bytes."""
    header = struct.pack(f">I{values.ndim}I", 0x0800 + values.ndim, *values.shape)
    return header + values.astype(np.uint8).tobytes()


def write_idx(
    folder: Path, train: str = "train", test: str = "t10k", *, suffix: str = ".gz"
) -> Path:
    """Four idx files: 6 training and 4 test images of 28×28, labels 0, 1, 2, …"""
    folder.mkdir(parents=True, exist_ok=True)
    for stem, count, seed in ((train, 6, 0), (test, 4, 1)):
        for kind, values in (
            ("images-idx3", images(count, 28, 1, seed=seed)[..., 0]),
            ("labels-idx1", np.arange(count, dtype=np.uint8)),
        ):
            raw = idx_bytes(values)
            path = folder / f"{stem}-{kind}-ubyte{suffix}"
            path.write_bytes(gzip.compress(raw) if suffix == ".gz" else raw)
    return folder


def leaf_body(users: dict[str, list[int]], *, seed: int = 0) -> dict[str, Any]:
    """A LEAF file's content: each user's labels and random pixels k / 255."""
    pixels = {
        user: images(len(labels), 28, 1, seed=seed + i).reshape(len(labels), -1)
        for i, (user, labels) in enumerate(users.items())
    }
    return {
        "users": list(users),
        "num_samples": [len(labels) for labels in users.values()],
        "user_data": {
            user: {"x": np.round(pixels[user] / 255, 4).tolist(), "y": labels}
            for user, labels in users.items()
        },
    }


def write_femnist(root: Path) -> Path:
    bodies = {
        "train/all_data_0.json": leaf_body({"b": [0, 61], "a": [5]}),
        "train/all_data_1.json": leaf_body({"c": [1, 2, 3]}, seed=7),
        "test/all_data_0.json": leaf_body({"a": [4], "d": [6]}, seed=9),
    }
    for name, body in bodies.items():
        path = root / "femnist" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(body))
    return root


def npz_arrays() -> dict[str, np.ndarray]:
    """The arrays of a tiny .npz with writers and a column."""
    return {
        "x_train": images(5, 6, 1)[..., 0],
        "y_train": np.array([0, 1, 2, 0, 1]),
        "x_test": images(2, 6, 1, seed=1)[..., 0],
        "y_test": np.array([2, 3]),
        "writer_train": np.array(["ann", "bob", "ann", "cy", "bob"]),
        "column_hand_train": np.array(["left", "right", "left", "left", "right"]),
    }


def write_npz(root: Path) -> Path:
    path = root / "data.npz"
    np.savez(path, **npz_arrays())
    return path


ADULT_HEADER = [
    *("age", "workclass", "fnlwgt", "education", "education-num"),
    *("marital-status", "occupation", "relationship", "race", "sex"),
    *("capital-gain", "capital-loss", "hours-per-week", "native-country"),
    *("income", "split"),
]


def adult_rows() -> list[list[str]]:
    """Six rows, four of them for training."""
    common = ["9", "Never-married", "Sales", "Own-child", "White"]
    rest = ["0", "0", "40", "Cuba"]
    rows = []
    for i in range(6):
        head = [str(20 + i), "?" if i == 5 else "Private", str(100 * i), "HS-grad"]
        sex = "Male" if i % 2 else "Female"
        tail = [">50K" if i in (1, 4) else "<=50K", "train" if i < 4 else "test"]
        rows.append([*head, *common, sex, *rest, *tail])
    return rows


def write_csv(path: Path, rows: list[list[str]], header: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])


def write_adult(root: Path) -> Path:
    write_csv(root / "adult" / "adult.csv", adult_rows(), ADULT_HEADER)
    return root


def png(image: np.ndarray) -> io.BytesIO:
    """The image (H, W, 1) as a png file in memory."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image[..., 0]).save(file, "PNG")
    file.seek(0)
    return file


WRITERS: dict[str, Callable[[Path], Path]] = {
    "mnist": lambda root: write_idx(root / "mnist"),
    "fashion_mnist": lambda root: write_idx(root / "fashion-mnist", suffix=""),
    "emnist": lambda root: write_idx(
        root / "emnist", "emnist-byclass-train", "emnist-byclass-test"
    ),
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "femnist": write_femnist,
    "npz": write_npz,
    "adult": write_adult,
}


FILES = {  # one of each, to damage
    "mnist": "mnist/train-images-idx3-ubyte.gz",
    "fashion_mnist": "fashion-mnist/t10k-labels-idx1-ubyte",
    "emnist": "emnist/emnist-byclass-test-images-idx3-ubyte.gz",
    "cifar10": "cifar-10-batches-bin/data_batch_3.bin",
    "cifar100": "cifar-100-binary/test.bin",
    "femnist": "femnist/train/all_data_1.json",
    "npz": "data.npz",
    "adult": "adult/adult.csv",
}


def make(**changes: Any) -> Dataset:
    """Three images with writers and a column."""
    arrays: dict[str, Any] = {
        "name": "toy",
        "train_inputs": np.arange(12, dtype=np.uint8).reshape(3, 2, 2, 1),
        "train_labels": np.array([0, 1, 2], np.int32),
        "test_inputs": np.zeros((2, 2, 2, 1), np.uint8),
        "test_labels": np.array([2, 1], np.int32),
        "num_classes": 3,
        "train_writers": np.array([4, 4, 0], np.int32),
        "columns": {"sex": Column(np.array([0, 1, 0], np.int32), ("f", "m"))},
    }
    return Dataset(**(arrays | changes))
