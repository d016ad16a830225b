"""Test rows of people who agreed come from a file of their own (--test_data)."""

import pathlib
from collections.abc import Sequence

import numpy as np
import pytest

from fedsvp_jax.data import sources
from fedsvp_jax.data.source_settings import TableSettings

HEADER = "ward,id,age,ill\n"
TABLE = HEADER + "".join(f"{'ns'[n % 2]},p{n},{n},{n % 2}\n" for n in range(10))
AGREED = "age,ill\n" + "".join(f"{n}.5,{n % 2}\n" for n in range(4))


def load(folder: pathlib.Path, table: str, tested: str | None, **more: str):
    (folder / "a.csv").write_text(table)
    if tested is not None:
        (folder / "b.csv").write_text(tested)
        more["test_data"] = str(folder / "b.csv")
    settings = TableSettings(label_column="ill", client_column="ward", **more)
    return sources.load("csv", folder / "a.csv", settings)


@pytest.mark.hole
def test_all_rows_of_the_table_train_and_those_of_the_file_are_public(
    tmp_path: pathlib.Path,
) -> None:
    """The file names neither clients nor what is left out."""
    own = load(tmp_path, TABLE, None, drop_columns="id")
    agreed = load(tmp_path, TABLE, AGREED, drop_columns="id")
    assert len(own.train_labels) == 8 and not own.public_test
    assert len(agreed.train_labels) == 10 and agreed.public_test
    assert agreed.test_labels.tolist() == [0, 1, 0, 1]
    ages = np.concatenate([agreed.train_inputs, agreed.test_inputs])[:, 0]
    low, high = agreed.schema.columns["age"].bounds
    told = low + (ages + 1) / 2 * (high - low)
    wanted = np.clip([*range(10), 0.5, 1.5, 2.5, 3.5], low, high)
    np.testing.assert_allclose(told, wanted, atol=1e-5)
    assert agreed.writer_names == ("n", "s")
    assert agreed.train_writers.tolist() == [0, 1] * 5


def test_a_column_split_that_is_left_out_divides_nothing(
    tmp_path: pathlib.Path,
) -> None:
    split = TABLE.replace("ill\n", "ill,split\n", 1).replace("1\n", "1,test\n")
    split = split.replace("0\n", "0,train\n")
    agreed = load(tmp_path, split, AGREED, drop_columns="id,split")
    assert len(agreed.train_labels) == 10 and len(agreed.test_labels) == 4


@pytest.mark.parametrize(
    ("table", "tested", "message"),
    [
        (
            TABLE,
            "age,ill,sex\n1,0,f\n",
            "same columns; id, sex is in one of .*--drop_columns",
        ),
        (TABLE, HEADER, "has no rows"),
        (TABLE, "size,sick\n1,0\n", "same columns"),  # none is in both
        (
            "split,ward,age,ill\ntrain,n,1,0\ntest,n,2,1\n",
            "split,age,ill\ntest,1,0\n",
            "column split and the test table both .*--drop_columns=split",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: pathlib.Path, table: str, tested: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load(tmp_path, table, tested)
    with pytest.raises(FileNotFoundError, match=r"none\.csv"):
        load(tmp_path, table, None, test_data=str(tmp_path / "none.csv"))


def test_an_npz_file_may_have_its_test_arrays_in_another(
    tmp_path: pathlib.Path,
) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.random((6, 2)),
        "y_train": np.arange(6) % 2,
        "x_test": rng.random((3, 2)),
        "y_test": np.array([1, 0, 1]),
    }
    one, other, whole = (tmp_path / f"{name}.npz" for name in ("one", "other", "whole"))
    np.savez(one, **{k: v for k, v in arrays.items() if k.endswith("train")})
    np.savez(other, **{k: v for k, v in arrays.items() if k.endswith("test")})
    np.savez(whole, **arrays)
    settings = TableSettings(test_data=str(other), classes=2)
    joined = sources.load("npz", one, settings)
    alone = sources.load("npz", whole, TableSettings(classes=2))
    assert joined.fingerprint == alone.fingerprint
    assert joined.public_test and not alone.public_test
    with pytest.raises(ValueError, match=r"one\.npz lacks x_test, y_test"):
        sources.load("npz", one, TableSettings(classes=2))
    with pytest.raises(ValueError, match=r"one\.npz lacks x_test, y_test; it must"):
        sources.load("npz", one, TableSettings(test_data=str(one)))


@pytest.mark.hole
@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ([f"{i % 5},{i % 2}" for i in range(40)], range(40)),  # by chance alike too
        ([f"{i},{i % 2}" for i in range(40)], range(39, -1, -1)),
        ([f"{i},{i % 2}" for i in range(40)], [3, 9, 12, 30]),
        ([f"{i},{i % 2}" for i in range(40)], [3, 9, 12, 30, 41]),
    ],
)
def test_the_rows_that_clients_train_on_are_no_rows_of_people_who_agreed(
    tmp_path: pathlib.Path, rows: list[str], chosen: Sequence[int]
) -> None:
    """Their exact scores stood in protection.html, as a published test set's."""
    rows = ["a,ill", *rows]
    tested = [(rows[1:] + ["70.5,0"] * 2)[i] for i in chosen]
    table, test = tmp_path / "rows.csv", tmp_path / "agreed.csv"
    table.write_text("\n".join(rows))
    test.write_text("\n".join([rows[0], *tested]))
    settings = TableSettings(label_column="ill", test_data=str(test))
    with pytest.raises(ValueError, match="clients train on: name rows of other people"):
        sources.load("csv", table, settings)


def test_rows_that_are_alike_by_chance_are_no_copies(tmp_path: pathlib.Path) -> None:
    table, test = tmp_path / "rows.csv", tmp_path / "agreed.csv"
    table.write_text("a,ill\n" + "".join(f"{i % 5},{i % 2}\n" for i in range(40)))
    test.write_text("a,ill\n0,0\n1,1\n7,1\n")
    settings = TableSettings(label_column="ill", test_data=str(test))
    assert sources.load("csv", table, settings).public_test
