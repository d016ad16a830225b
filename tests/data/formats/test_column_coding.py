"""Rows of another CSV file are encoded as the table that a run was trained on."""

from pathlib import Path

import numpy as np
import pytest

from fedsvp_jax.data.formats import table

SETTINGS = table.TableSettings(
    label_column="kind",
    client_column="ward",
    drop_columns="id",
    column_bounds="age=0:100",
)
HEAD = "id,ward,age,dose,size,kind"
ROWS = [f"{n},w{n % 3},{3 * n},{n / 7},{'SML'[n % 3]},{'ab'[n % 2]}" for n in range(25)]


def write(path: Path, head: str, rows: list[str]) -> Path:
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def test_rows_become_the_features_that_training_had(tmp_path: Path) -> None:
    """By bounds that were named, those of the training rows, and all rows' texts."""
    trained = write(tmp_path / "trained.csv", HEAD, ROWS)
    data = table.load_csv(trained, SETTINGS)
    is_test = np.random.default_rng(0).permutation(25) < 5
    tested = [row for row, kept in zip(ROWS, is_test, strict=True) if kept]
    turned = [",".join(reversed(row.split(",")[2:5])) for row in tested]
    new = write(tmp_path / "new.csv", "size,dose,age", turned)  # no label, no client
    found = table.load_rows(new, trained, SETTINGS)
    np.testing.assert_array_equal(found, data.test_inputs)


@pytest.mark.parametrize(
    ("head", "row", "message"),
    [
        ("age,dose", "1,2", "lacks the column size"),
        ("age,dose,size", "1,2,XL", "size holds 'XL' in row 1 .*none of"),
        ("age,dose,size", "old,2,S", "column age holds texts; in the training"),
        ("age,dose,size", "1,,S", "column dose lacks a finite number .'' in row 1"),
        ("age,dose,size", "", "has no rows"),
    ],
)
def test_what_training_did_not_have_is_refused(
    tmp_path: Path, head: str, row: str, message: str
) -> None:
    trained = write(tmp_path / "trained.csv", HEAD, ROWS)
    new = write(tmp_path / "new.csv", head, [row] if row else [])
    with pytest.raises(ValueError, match=message):
        table.load_rows(new, trained, SETTINGS)
