"""A missing or damaged file is one sentence that names the path."""

import gzip
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_files
from tiny_files import ADULT_HEADER

from fedsvp_jax.data import sources
from fedsvp_jax.data.table_settings import TableSettings
from fedsvp_jax.tables import npz

pytestmark = [
    pytest.mark.across("every format of data"),
    pytest.mark.filterwarnings("ignore:.*Windows-1252"),
]

FILES = {
    "mnist": "mnist/train-images-idx3-ubyte.gz",
    "fashion_mnist": "fashion-mnist/t10k-labels-idx1-ubyte",
    "emnist": "emnist/emnist-byclass-test-images-idx3-ubyte.gz",
    "cifar10": "cifar-10-batches-bin/data_batch_3.bin",
    "cifar100": "cifar-100-binary/test.bin",
    "femnist": "femnist/train/all_data_1.json",
    "npz": "data.npz",
    "adult": "adult/adult.csv",
}


def refused(name: str, data_dir: Path, *, needle: str | Path) -> str:
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        sources.load(name, data_dir)
    message = str(caught.value)
    assert str(needle) in message
    assert "\n" not in message
    return message


def refused_with(name: str, tmp_path: Path, damage: Callable[[bytes], bytes]) -> str:
    """What is said of the data set when this changed its file of FILES."""
    data_dir = tiny_files.WRITERS[name](tmp_path)
    path = tmp_path / FILES[name]
    path.write_bytes(damage(path.read_bytes()))
    return refused(name, data_dir, needle=path)


@pytest.mark.parametrize("name", list(FILES))
def test_what_is_missing_is_named(name: str, tmp_path: Path) -> None:
    """The setting, the folder, the files in it, and one of the files."""
    with pytest.raises(ValueError, match=f"dataset {name} needs data_dir"):
        sources.load(name)
    assert "expects" in refused(name, tmp_path / "nowhere", needle="nowhere")
    if name != "npz":
        refused(name, tmp_path, needle=tmp_path)
    data_dir, file = tiny_files.WRITERS[name](tmp_path), tmp_path / FILES[name]
    file.unlink()
    if name in ("mnist", "fashion_mnist", "emnist", "cifar10"):
        refused(name, data_dir, needle=file.name.removesuffix(".gz"))
    if name == "femnist":
        (tmp_path / "femnist/test/all_data_0.json").unlink()
        refused(name, data_dir, needle=tmp_path / "femnist/test")
    if name == "mnist":
        labels = data_dir / "train-labels-idx1-ubyte.gz"
        assert "the path of the training images" in refused(name, labels, needle=labels)


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


def test_a_small_file_does_not_ask_for_much_memory(tmp_path: Path) -> None:
    """Megabytes of zeros unpack to gigabytes."""
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key in ("x_train", "y_train", "x_test", "y_test"):
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                member.write(b"\x00")
    raw = bytearray(path.read_bytes())
    place = raw.rindex(b"PK\x01\x02") + 24  # of the last member's size
    raw[place : place + 4] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(raw)
    message = refused("npz", path, needle=path)
    assert "GiB, which its size does not justify" in message


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("mnist", [0] * 6, "magic number 2051"),  # labels in the place of images
        ("fashion_mnist", [0, 1, 2, 10], "label 10"),
        ("fashion_mnist", [0, 1, 2], "3 labels"),
    ],
)
def test_idx_files_of_other_values_are_refused(
    name: str, values: list[int], message: str, tmp_path: Path
) -> None:
    raw = tiny_files.idx_bytes(np.asarray(values, np.uint8))
    content = gzip.compress(raw) if FILES[name].endswith(".gz") else raw
    assert message in refused_with(name, tmp_path, lambda _: content)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_cifar_label_out_of_range_is_refused(name: str, tmp_path: Path) -> None:
    place = 0 if name == "cifar10" else 1

    def damage(raw: bytes) -> bytes:
        return raw[:place] + bytes([100]) + raw[place + 1 :]

    assert "label 100" in refused_with(name, tmp_path, damage)


def set_pixel(body: dict[str, Any], value: float) -> None:
    body["user_data"]["c"]["x"][1][5] = value


def make_jagged(body: dict[str, Any]) -> None:
    body["user_data"]["c"]["x"][1].pop()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda body: set_pixel(body, float("nan")), "pixel"),
        (lambda body: set_pixel(body, 1.5), "pixel"),
        (lambda body: set_pixel(body, -0.1), "pixel"),
        (make_jagged, "user c"),
        (lambda body: body["user_data"]["c"].update(y=[1, 2, 62]), "label 62"),
        (lambda body: body["user_data"]["c"].update(y=[1, -2, 6]), "label -2"),
        (lambda body: body["user_data"]["c"].update(y=[1, 2.5, 6]), "integer labels"),
        (lambda body: body["user_data"]["c"].update(y=[1, 2]), "3 rows"),
        (lambda body: body["user_data"].pop("c"), "user c"),
        (lambda body: body.update(users=["c", "d"]), "2 users"),
        (lambda body: body.pop("num_samples"), "num_samples"),
        (lambda body: body.update(users=5), "not a LEAF file"),
        (lambda body: body.update(users=[["c"]]), "not a LEAF file"),
        (lambda body: body.update(num_samples=["3"]), "not a LEAF file"),
        (  # its records were doubled
            lambda body: body.update(users=["c", "c"], num_samples=[3, 3]),
            "user c comes twice",
        ),
    ],
)
def test_impossible_leaf_values_are_refused(
    damage: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    def changed(raw: bytes) -> bytes:
        body = json.loads(raw)
        damage(body)
        return json.dumps(body).encode()

    assert message in refused_with("femnist", tmp_path, changed)


class Bomb:
    """Unpickling it would fail the test."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was loaded",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": np.array([Bomb()] * 5, dtype=object)}, "never loaded"),
        ({"x_train": np.zeros((5, 6, 6), np.int64)}, "x_train is int64"),
        (
            {"x_test": np.full((2, 6, 6), np.inf)},
            "x_test holds NaN or infinity (72 of 72 values, first at index [0, 0, 0]); "
            "all values must be finite",
        ),
        ({"y_test": np.array([-1, 2])}, "label -1"),
        ({"y_test": np.array([0.5, 2.0])}, "y_test holds other values (dtype float64)"),
        ({"y_test": np.array(["a", "b"])}, "y_test holds text (dtype <U1)"),
        ({"y_test": np.array([0])}, "one label for each example of x_test"),
        ({"writer_train": np.array([0])}, "writer_train"),
        ({"column_hand_train": np.zeros(5)}, "column_hand_train is float64"),
    ],
)
def test_impossible_npz_arrays_are_refused(
    changes: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, **(tiny_files.npz_arrays() | changes))
    assert message in refused("npz", path, needle=path)


def test_npz_read_by_row_names_the_row_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    features = np.zeros((5, 3), np.float32)
    features[4, 2] = np.nan
    changes = {"x_train": features, "x_test": features[:2]}
    np.savez(path, **(tiny_files.npz_arrays() | changes))
    source = npz.open_npz(path, tmp_path / "scratch", TableSettings())
    with pytest.raises(ValueError, match="first at row 4, column 2"):
        source.rows(np.array([1, 4]))


def test_npz_without_an_array_names_it(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x_train=np.zeros((1, 1)))
    assert "lacks y_train, x_test, y_test" in refused("npz", path, needle=path)


def test_a_pickle_under_the_name_npz_is_not_loaded(tmp_path: Path) -> None:
    """Nor a bare array."""
    bare = io.BytesIO()
    np.save(bare, np.zeros(3))
    for content in (pickle.dumps(Bomb()), bare.getvalue()):
        (tmp_path / "data.npz").write_bytes(content)
        refused("npz", tmp_path / "data.npz", needle=tmp_path / "data.npz")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("age", "old", "column age holds no number"),
        ("age", "nan", "NaN or infinity"),
        ("income", "lots", "'lots'"),
        ("race", "Martian", "column race holds 'Martian'; it must be one of Amer-"),
        ("split", "validation", "'validation'"),
    ],
)
def test_impossible_adult_values_are_refused(
    column: str, value: str, message: str, tmp_path: Path
) -> None:
    rows = tiny_files.adult_rows()
    rows[2][ADULT_HEADER.index(column)] = value
    path = tmp_path / "adult.csv"
    tiny_files.write_csv(path, rows, ADULT_HEADER)
    assert message in refused("adult", tmp_path, needle=path)


def test_adult_without_a_column_or_a_split_names_it(tmp_path: Path) -> None:
    path, rows, header = tmp_path / "adult.csv", tiny_files.adult_rows(), ADULT_HEADER
    other = [name if name != "race" else "tribe" for name in header]
    for written, names, message in (
        (rows, other, "lacks the column race"),
        (rows[:4], header, "train and test"),
    ):
        tiny_files.write_csv(path, written, names)
        assert message in refused("adult", tmp_path, needle=path)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"digits, mnist.*tfds:NAME, got 'imagenet'"):
        sources.load("imagenet", "/tmp")
