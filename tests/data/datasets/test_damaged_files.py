"""A missing or damaged file is one sentence that names the path."""

import gzip
import io
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_files
from tiny_files import FILES

from fedsvp_jax.data import sources

pytestmark = pytest.mark.filterwarnings("ignore:.*Windows-1252")


def refused(name: str, data_dir: Path, *, needle: str | Path) -> str:
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        sources.load(name, data_dir)
    message = str(caught.value)
    assert str(needle) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", list(FILES))
def test_what_is_missing_is_named(name: str, tmp_path: Path) -> None:
    """The setting, the folder, the files in it, and one of the files."""
    with pytest.raises(ValueError, match=f"dataset {name} needs data_dir"):
        sources.load(name)
    message = refused(name, tmp_path / "nowhere", needle="nowhere")
    if name != "npz":  # a file's own flag, which the command names
        assert "expects" in message
        refused(name, tmp_path, needle=tmp_path)
    data_dir, file = tiny_files.WRITERS[name](tmp_path), tmp_path / FILES[name]
    file.unlink()
    if name in ("mnist", "fashion_mnist", "emnist", "cifar10"):
        refused(name, data_dir, needle=file.name.removesuffix(".gz"))
    if name == "femnist":
        (tmp_path / "femnist/test/all_data_0.json").unlink()
        refused(name, data_dir, needle=tmp_path / "femnist/test")


@pytest.mark.parametrize("name", list(FILES))
def test_a_truncated_file_and_one_of_another_kind_are_named(
    name: str, tmp_path: Path
) -> None:
    data_dir, file = tiny_files.WRITERS[name](tmp_path), tmp_path / FILES[name]
    whole = file.read_bytes()
    cut = [whole[: int(len(whole) * kept)] for kept in (0.0, 0.1, 0.55, 0.9, 0.99)]
    for damaged in (*cut, b"\x80\xff\x00 no such format " * 7):
        file.write_bytes(damaged)
        refused(name, data_dir, needle=file)


class Bomb:
    """Unpickling it would fail the test."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was loaded",)


Damage = Callable[[bytes], bytes]


def idx(*values: int, packed: bool = False) -> Damage:
    """A file of labels, of these."""
    raw = tiny_files.idx_bytes(np.asarray(values, np.uint8))
    return lambda _: gzip.compress(raw) if packed else raw


def byte(place: int, value: int) -> Damage:
    return lambda raw: raw[:place] + bytes([value]) + raw[place + 1 :]


def leaf(change: Callable[[dict[str, Any]], Any]) -> Damage:
    def changed(raw: bytes) -> bytes:
        body = json.loads(raw)
        change(body)
        return json.dumps(body).encode()

    return changed


def of_c(**changes: Any) -> Damage:
    """The user c of a LEAF file."""
    return leaf(lambda body: body["user_data"]["c"].update(changes))


def pixel(value: float) -> Damage:
    pixels = np.zeros((3, 28 * 28))
    pixels[1, 5] = value
    return of_c(x=pixels.tolist())


def npz_of(**changes: np.ndarray) -> Damage:
    file = io.BytesIO()
    np.savez(file, **(tiny_files.npz_arrays() | changes))
    return lambda _: file.getvalue()


def adult(column: str, value: str, row: int = 3) -> Damage:
    """One cell; of row 0 a name."""

    def changed(raw: bytes) -> bytes:
        rows = [line.split(",") for line in raw.decode().splitlines()]
        rows[row][rows[0].index(column)] = value
        return "\n".join(map(",".join, rows)).encode()

    return changed


DAMAGES: list[tuple[str, Damage, str]] = [
    ("mnist", idx(*[0] * 6, packed=True), "magic number 2051"),  # of images
    ("fashion_mnist", idx(0, 1, 2, 10), "label 10"),
    ("fashion_mnist", idx(0, 1, 2), "3 labels"),
    ("cifar10", byte(0, 100), "label 100"),
    ("cifar100", byte(1, 100), "label 100"),
    *(("femnist", pixel(value), "pixel") for value in (math.nan, 1.5, -0.1)),
    ("femnist", of_c(x=[[0.5] * 784, [0.5], [0.5] * 784]), "user c"),
    ("femnist", of_c(y=[1, 2, 62]), "label 62"),
    ("femnist", of_c(y=[1, -2, 6]), "label -2"),
    ("femnist", of_c(y=[1, 2.5, 6]), "integer labels"),
    ("femnist", of_c(y=[1, 2]), "3 rows"),
    ("femnist", leaf(lambda body: body["user_data"].pop("c")), "user c"),
    ("femnist", leaf(lambda body: body.update(users=["c", "d"])), "2 users"),
    ("femnist", leaf(lambda body: body.pop("num_samples")), "num_samples"),
    ("femnist", leaf(lambda body: body.update(users=5)), "not a LEAF file"),
    ("femnist", leaf(lambda body: body.update(users=[["c"]])), "not a LEAF file"),
    ("femnist", leaf(lambda body: body.update(num_samples=["3"])), "not a LEAF file"),
    (  # its records were doubled
        "femnist",
        leaf(lambda body: body.update(users=["c", "c"], num_samples=[3, 3])),
        "user c comes twice",
    ),
    ("npz", npz_of(x_train=np.array([Bomb()] * 5, dtype=object)), "never loaded"),
    (
        "npz",
        npz_of(x_train=np.zeros((5, 6, 6), np.int64)),
        "train inputs must be uint8",
    ),
    (
        "npz",
        npz_of(x_test=np.full((2, 6, 6), np.inf)),
        "test inputs hold NaN or infinity (72 of 72 values, first at index [0, 0, 0]",
    ),
    (
        "npz",
        npz_of(y_test=np.array([-1, 2])),
        "test labels must be from 0 to 2, got -1",
    ),
    (
        "npz",
        npz_of(y_test=np.array([0.5, 2.0])),
        "test labels must be whole numbers, got float64",
    ),
    (
        "npz",
        npz_of(y_test=np.array(["a", "b"])),
        "labels must be whole numbers, got <U1",
    ),
    (
        "npz",
        npz_of(y_test=np.array([0])),
        "test labels must have the shape (2,)",
    ),
    ("npz", npz_of(y_train=np.array([0, 1, 2, 0, 9999])), "9999 would make 10000 cl"),
    ("npz", npz_of(writer_train=np.array([0])), "train_writers must have the shape"),
    ("npz", npz_of(column_hand_train=np.zeros((5, 2))), "column_hand_train holds arr"),
    ("npz", lambda raw: raw.replace(b"y_test", b"z_test"), "lacks y_test; it must"),
    (
        "adult",
        adult("age", "old"),
        "column age holds numbers and texts ('old' in row 3",
    ),
    ("adult", adult("age", "nan"), "lacks a finite number ('nan'"),
    ("adult", adult("income", "lots"), "'lots'"),
    ("adult", adult("race", "Martian"), "none of its categories ('Martian' in row 3"),
    ("adult", adult("split", "validation"), "'validation'"),
    ("adult", adult("race", "tribe", row=0), "lacks the column race"),
    ("adult", lambda raw: raw.replace(b"test", b"train"), "train and test"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGES)
def test_impossible_values_are_refused(
    name: str, damage: Damage, message: str, tmp_path: Path
) -> None:
    data_dir, path = tiny_files.WRITERS[name](tmp_path), tmp_path / FILES[name]
    path.write_bytes(damage(path.read_bytes()))
    assert message in refused(name, data_dir, needle=path)


def test_a_pickle_under_the_name_npz_is_not_loaded(tmp_path: Path) -> None:
    """Nor a bare array."""
    bare = io.BytesIO()
    np.save(bare, np.zeros(3))
    for content in (pickle.dumps(Bomb()), bare.getvalue()):
        (tmp_path / "data.npz").write_bytes(content)
        refused("npz", tmp_path / "data.npz", needle=tmp_path / "data.npz")


def test_an_unknown_name_lists_the_known_ones() -> None:
    for name in ("imagenet", "tfds:"):
        with pytest.raises(ValueError, match=f"digits, mnist.*tfds:NAME, got '{name}'"):
            sources.load(name, "/tmp")
