"""What the records tell makes claims nominal; what is declared does not (N7)."""

import dataclasses
import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data import sources
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.formats import declared
from fedsvp_jax.data.formats.table import from_table
from fedsvp_jax.federation import build

pytestmark = pytest.mark.hole
ROWS = 60
WAGE, TOWNS, ILL = np.arange(ROWS) % 31 + 0.5, ("a", "b", "c"), ("no", "yes")
TABLE = {
    "wage": WAGE,
    "town": np.array(TOWNS)[np.arange(ROWS) % 3],
    "ill": np.array(ILL)[np.arange(ROWS) % 2],
}
BOUNDS, CATEGORIES = {"wage": (0.0, 40.0)}, {"town": TOWNS, "ill": ILL}


@given(
    row=st.integers(0, ROWS - 1),
    wage=st.floats(-1e9, 1e9),
    town=st.sampled_from(TOWNS),
    ill=st.sampled_from(ILL),
)
@settings(max_examples=50, deadline=None)
def test_n7_a_changed_record_of_a_declared_table_changes_no_other(
    row: int, wage: float, town: str, ill: str
) -> None:
    """One outlier moved the features of 799 of 800 records of an undeclared one."""
    neighbour = {key: values.copy() for key, values in TABLE.items()}
    for key, value in (("wage", wage), ("town", town), ("ill", ill)):
        neighbour[key][row] = value
    one, other = (
        from_table(table, label="ill", bounds=BOUNDS, categories=CATEGORIES)
        for table in (TABLE, neighbour)
    )
    assert one.from_records == other.from_records == ()
    assert one.num_classes == other.num_classes
    same = (one.train_inputs == other.train_inputs).all(1)
    assert (~same).sum() + (one.train_labels != other.train_labels)[same].sum() <= 1


@pytest.mark.parametrize(
    ("bounds", "categories", "told"),
    [
        (BOUNDS, {"town": TOWNS}, ("the classes of ill",)),
        (BOUNDS, {"ill": ILL}, ("the categories of town",)),
        ({}, CATEGORIES, ("the bounds of wage",)),
        ({}, {"wage": ("*", "1.5")} | CATEGORIES, ()),
    ],
)
def test_n7_what_the_records_tell_is_listed(
    bounds: dict, categories: dict, told: tuple[str, ...]
) -> None:
    data = from_table(TABLE, label="ill", bounds=bounds, categories=categories)
    assert data.from_records == told


def claim_of(data: Dataset, **changes: object) -> tuple[bool, str]:
    """Whether a run on the data claims a proved ε, and its assumptions."""
    config = ExperimentConfig(
        dataset="csv",
        partition="iid",
        mechanism="nbafl",
        sensitivity="update_clip",
        num_clients=3,
        cohort_size=2,
        num_hbc_clients=0,
        num_rounds=2,
        batch_size=4,
        **changes,
    )
    claim = build([resolve(config, dataset=data)], data).mechanism.claim
    return claim.proved, claim.assumptions


def test_n7_claims_are_nominal_until_everything_is_declared() -> None:
    """They were called proved, with scales that were said to be constants."""
    proved, said = claim_of(from_table(TABLE, label="ill"))
    assert not proved
    assert "nominal, because the classes of ill, the bounds of wage" in said
    assert "--column_bounds, --column_categories or --classes" in said
    whole = from_table(TABLE, label="ill", bounds=BOUNDS, categories=CATEGORIES)
    assert claim_of(whole)[0]
    for public in (True, False):
        town = whole.columns["town"]._replace(public=public)
        data = dataclasses.replace(whole, columns={"town": town}, test_columns={})
        proved, said = claim_of(
            data, attributes="column:town", private_category="a", num_attributes=3
        )
        assert proved == public and ("the categories of town" in said) != public


def test_n7_arrays_of_ones_own_declare_their_classes_and_categories(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "a.npz"
    np.savez(
        path,
        x_train=np.zeros((4, 2), np.float32),
        y_train=np.array([0, 1, 1, 0]),
        x_test=np.zeros((2, 2), np.float32),
        y_test=np.array([0, 2]),
        column_sex_train=np.array(["f", "m", "f", "m"]),
    )
    told = sources.table.TableSettings()
    data = sources.load("npz", path, told)
    assert data.from_records == ("the number of classes",)
    assert not data.columns["sex"].public
    told = dataclasses.replace(told, classes=3, column_categories="sex=m|f|d")
    data = sources.load("npz", path, told)
    assert data.from_records == () and data.num_classes == 3
    assert data.columns["sex"].categories == ("m", "f", "d")
    assert data.columns["sex"].public
    with pytest.raises(ValueError, match="label 2; labels must be from 0 to 1"):
        sources.load("npz", path, dataclasses.replace(told, classes=2))
    with pytest.raises(ValueError, match=r"'f' in row 1 .*declare it"):
        wrong = dataclasses.replace(told, column_categories="sex=m|w")
        sources.load("npz", path, wrong)
    with pytest.raises(ValueError, match="did you mean sex"):
        wrong = dataclasses.replace(told, column_categories="sexx=m|w")
        sources.load("npz", path, wrong)


def test_a_star_takes_whatever_was_not_declared() -> None:
    names = {"town": ("a", "*"), "ill": ILL}
    data = from_table(TABLE, label="ill", bounds=BOUNDS, categories=names)
    assert data.columns["town"].categories == ("a", "*")
    assert data.train_inputs.shape[1] == 1 + 2
    assert np.all(data.train_inputs[:, 1:].sum(1) == 1)
    with pytest.raises(ValueError, match=r"holds 'b' in row 2 .*none of its"):
        from_table(TABLE, label="ill", categories={"town": ("a", "c")})


@pytest.mark.parametrize("text", ["town", "town=", "=a|b", "town=a|a", "town=a"])
def test_categories_that_are_not_declared_as_they_should_be_are_refused(
    text: str,
) -> None:
    with pytest.raises(ValueError, match=r"column_categories must be NAME=ONE\|OTHER"):
        declared.categories(text)
