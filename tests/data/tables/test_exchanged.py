"""A client whose codes are exchanged is named, by columns that go with them."""

import re
import warnings

import numpy as np
import pytest

from fedsvp_jax.data.tables.schema import from_toml
from fedsvp_jax.data.tables.table import from_table

SCHEMA = """schema = 1
[label]
column = "died"
classes = ["no", "yes"]
[client]
column = "clinic"
[columns.sex]
type = "number"
bounds = [1, 2]
[columns.smokes]
type = "category"
values = ["no", "yes", "*"]
[columns.height]
type = "number"
bounds = [140, 200]
"""


def asked(exchanged: str, seed: int = 0, rows: int = 1200) -> str:
    """The warnings of a table of four clinics; at one of them a column is exchanged."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(1, 3, rows)
    smokes, height = rng.random(rows) < 0.4, rng.normal(154 + 10 * sex, 6, rows)
    died = rng.random(rows) < 0.15 + 0.6 * smokes
    clinic = np.array(["Bern", "Chur", "Genf", "Thun"])[rng.integers(4, size=rows)]
    there = clinic == "Chur"
    codes = {"sex": sex - 1, "smokes": smokes, "died": died}
    if exchanged:
        codes[exchanged] = np.where(there, 1 - codes[exchanged], codes[exchanged])
    words = np.array(["no", "yes"])
    table = {
        "sex": codes["sex"] + 1,
        "smokes": words[codes["smokes"].astype(int)],
        "height": height.round(),
        "died": words[codes["died"].astype(int)],
        "clinic": clinic,
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_table(table, schema=from_toml(SCHEMA, "s"))
    return "\n".join(str(warning.message) for warning in caught)


@pytest.mark.parametrize("name", ["sex", "smokes", "died"])
def test_the_client_of_exchanged_codes_is_named(name: str) -> None:
    assert re.search(f"column {name} of Chur: are its two values, or", asked(name))


def test_no_honest_client_is_asked() -> None:
    assert not any("exchanged there" in asked("", seed) for seed in range(20))
