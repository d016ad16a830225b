"""LEAF's FEMNIST: JSON files of users, each with pixels in [0, 1] and labels.

Every file is `{users: [name], num_samples: [int], user_data: {name: {x: [784
floats], y: [int]}}}`. A data set is any number of such files in `train/` and in
`test/` (Caldas et al. 2018, arXiv 1812.01097, and the layout of its repository).
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..store.writer import ClientExamples, StoreSource
from ..tables import files
from . import folders

_SIDE = 28
_NUM_CLASSES = 62


def _load_json(path: Path) -> Iterator[tuple[str, int, Any]]:
    """The name, the number of examples, and the examples of each user."""
    # The pixels are a few hundred different texts. Converting each text once halves the
    # time and keeps few float objects: .5 GB instead of 1.5 for 300 writers.
    parse_float = functools.lru_cache(maxsize=1 << 16)(float)
    try:
        with path.open(encoding="utf-8") as handle:
            body = json.load(handle, parse_float=parse_float)
        users, counts = body["users"], body["num_samples"]
        texts = all(isinstance(user, str) for user in users)
        if not texts or not all(type(count) is int for count in counts):
            raise TypeError("users must be names, and num_samples whole numbers")
        if len(users) != len(counts):
            raise ValueError(f"it names {len(users)} users and {len(counts)} counts")
        data = body["user_data"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged or not a LEAF file ({error!r}); it must have users "
            "(names), num_samples (whole numbers) and user_data"
        ) from error
    return ((user, count, data) for user, count in zip(users, counts, strict=True))


def _read_user(data: Any, user: str, count: int, path: Path) -> ClientExamples:
    try:
        pixels = np.asarray(data[user]["x"], np.float32)
        labels = np.asarray(data[user]["y"])
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: user {user} has no rectangular x and y ({error!r}); user_data "
            "must hold both for every user"
        ) from error
    if (
        pixels.shape != (count, _SIDE * _SIDE)
        or labels.shape != (count,)
        or labels.dtype.kind != "i"
    ):
        raise ValueError(
            f"{path}: user {user} holds x of the shape {pixels.shape} and "
            f"{labels.dtype} y of the shape {labels.shape}; it must hold {count} rows "
            f"of {_SIDE * _SIDE} pixels and {count} integer labels"
        )
    if not (pixels.min() >= 0 and pixels.max() <= 1):  # so NaN fails as well
        raise ValueError(
            f"{path}: user {user} holds a pixel outside [0, 1] or NaN; all pixels "
            "must be from 0 to 1"
        )
    images = np.round(pixels * np.float32(255)).astype(np.uint8)
    labels = files.check_labels(labels, _NUM_CLASSES, path)
    return ClientExamples(user, images.reshape(-1, _SIDE, _SIDE, 1), labels)


def _users(folder: Path) -> Iterator[ClientExamples]:
    """The users that hold examples; one file is in memory at a time."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise FileNotFoundError(
            f"{folder} holds no JSON file; LEAF's FEMNIST needs at least one"
        )
    seen = set()
    for path in paths:
        for user, count, data in _load_json(path):
            if user in seen:
                raise ValueError(
                    f"{path}: user {user} comes twice; every user's examples must "
                    "stand in one place"
                )
            seen.add(user)
            if count:
                yield _read_user(data, user, count, path)


def _read_folder(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, set[str]]:
    """Inputs, labels, each example's writer by the place of its name, and the names."""
    users = list(_users(folder))
    if not users:
        raise ValueError(f"{folder} holds no example; at least one is needed")
    names, inputs, labels = zip(*users, strict=True)
    writers = np.repeat(np.unique(names, return_inverse=True)[1], [*map(len, labels)])
    return np.concatenate(inputs), np.concatenate(labels), writers, set(names)


def _find(data_dir: Path) -> Path:
    return folders.find_folder(
        data_dir, ["femnist", "femnist/data", "data"], "train", data_set="femnist"
    )


def stream_femnist(data_dir: Path) -> StoreSource:
    """FEMNIST's writers by name; one JSON file is in memory at a time.

    Scores of the test examples may not be published: the writers of `train/` are not
    read yet, and some of them may have written test examples too.

    Raises:
      FileNotFoundError: `train/` or `test/` is missing or empty.
      ValueError: a file is damaged. A file of `train/` is only read, and the error
        raised, when its users are asked for.
    """
    folder = _find(data_dir)
    inputs, labels, *_ = _read_folder(folder / "test")
    users = _users(folder / "train")
    return StoreSource("femnist", users, inputs, labels, _NUM_CLASSES)


def load_femnist(data_dir: Path) -> Dataset:
    """FEMNIST with pixels as round(255 x) and its writers, numbered by sorted name.

    LEAF divides either the writers or each writer's examples. In the second case the
    test examples are the clients' own.

    Raises:
      FileNotFoundError: `train/` or `test/` is missing or empty.
      ValueError: a file is damaged or holds impossible values.
    """
    folder = _find(data_dir)
    inputs, labels, writers, names = _read_folder(folder / "train")
    test_inputs, test_labels, _, tested = _read_folder(folder / "test")
    return Dataset(
        "femnist",
        inputs,
        labels,
        test_inputs,
        test_labels,
        _NUM_CLASSES,
        train_writers=writers,
        public_test=names.isdisjoint(tested),
    )
