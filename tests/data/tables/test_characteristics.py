"""A Table 1 of counts with noise: parts of columns, their shares and odds ratios."""

import datetime
from typing import Any

import numpy as np
import pytest

from fedsvp_jax.data.tables.characteristics import describe, num_parts, parts_of
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn
from fedsvp_jax.data.tables.scores import SHARES
from fedsvp_jax.data.tables.table import from_table

COLUMNS = {
    "age": SchemaColumn("number", from_data=False, bounds=(0, 80)),
    "dose": SchemaColumn(
        "number", from_data=False, bounds=(1, 100), log=True, knots=(5.0, 20.0)
    ),
    "smokes": SchemaColumn("number", from_data=False, bounds=(0, 1)),
    "sex": SchemaColumn("category", values=("F", "M", "*")),
    "site": SchemaColumn("category", values=("A", "*")),
    "day": SchemaColumn("date", from_data=False, bounds=(18262, 18628)),
}
CUTS = {"age": [20, 40, 60], "dose": [5, 20], "smokes": [0.5]}


def table(rows: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    first = datetime.date(2020, 1, 1)
    days = [first + datetime.timedelta(int(d)) for d in rng.integers(0, 367, rows)]
    return {
        "age": rng.choice([0, 19, 20, 39.5, 40, 60, 80], rows),
        "dose": rng.choice([1, 4.99, 5, 19.9, 20, 100], rows),
        "smokes": rng.integers(0, 2, rows),
        "sex": rng.choice(["F", "M", "X"], rows),
        "site": rng.choice(["A", "B", "C"], rows),
        "day": [day.isoformat() for day in days],
        "ill": rng.integers(0, 2, rows),
        "split": np.where(np.arange(rows) < 10, "train", "test"),
    }


def test_a_part_holds_the_rows_whose_cells_say_so() -> None:
    """Counted here from the cells, not from the features."""
    cells = table()
    schema = Schema(COLUMNS, "ill", ("0", "1"))
    data = from_table(cells, schema=schema)
    parts = parts_of(COLUMNS, data.test_inputs)
    assert parts.shape == (390, sum(map(num_parts, COLUMNS.values())))
    counts = np.eye(2)[data.test_labels].T @ parts
    described = describe(COLUMNS, counts, 1e-12)
    of_test = {name: np.array(values)[10:] for name, values in cells.items()}
    for name, column in described.items():
        values = of_test[name]
        if name in CUTS:
            assert np.allclose(column["cuts"], CUTS[name], rtol=1e-5)
            codes = np.digitize(values.astype(float), CUTS[name])
        elif name == "day":
            quarters = [str(cut)[:10] for cut in column["cuts"]]
            assert quarters == ["2020-04-02", "2020-07-02", "2020-10-02"]
            codes = np.digitize(
                np.array(values, "M8[D]").astype(int), [18354, 18445, 18537]
            )
        else:
            named = COLUMNS[name].values
            assert column["values"] == named
            codes = np.array([named.index(v if v in named else "*") for v in values])
        for label in range(2):
            of_class = codes[of_test["ill"] == label]
            wanted = np.bincount(of_class, minlength=num_parts(COLUMNS[name]))
            assert column["counts"][label] == wanted.tolist(), name


def test_shares_and_odds_ratios_without_noise_are_those_of_the_counts() -> None:
    counts = np.array([[60.0, 30, 0], [20, 40, 9]])
    column = {"sex": SchemaColumn("category", values=("F", "M", "X"))}
    (described,) = describe(column, counts, 1e-12).values()
    assert described["reference"] == 0  # 80 rows, the most
    shares, ratios = described["shares"], described["odds_ratios"]
    for part, (zeros, ones) in enumerate(counts.T):
        rows, share = zeros + ones, ones / (zeros + ones)
        # Wilson's interval: |p̂ − p| ≤ 1.96·√(p(1 − p)/n)
        near = abs(share - SHARES) <= 1.96 * np.sqrt(SHARES * (1 - SHARES) / rows)
        wilson = SHARES[near][[0, -1]]
        assert shares[part] == pytest.approx([share, *wilson], abs=1.1e-3)
    odds = 40 * 60 / (20 * 30)
    assert ratios[1][0] == pytest.approx(odds, rel=0.01)
    woolf = 1.96 * np.sqrt(1 / 60 + 1 / 30 + 1 / 20 + 1 / 40)
    wanted = odds * np.exp([-woolf, woolf])
    assert ratios[1][1:] == pytest.approx(wanted, rel=0.03)
    assert ratios[2][0] is None and ratios[2][2] is None and ratios[2][1] > 1


@pytest.mark.parametrize(("rows", "std"), [(300, 2.0), (300, 5.4), (1500, 5.4)])
def test_the_intervals_cover_sampling_and_noise(rows: int, std: float) -> None:
    chances = np.array([[0.3, 0.2, 0.1, 0.05], [0.1, 0.1, 0.1, 0.05]])
    column = {"age": COLUMNS["age"]}
    rng, draws = np.random.default_rng(1), 300
    covered = {"shares": np.zeros(4), "odds_ratios": np.zeros(4)}
    compared = np.zeros(4)
    for _ in range(draws):
        counts = rng.multinomial(rows, chances.ravel()).reshape(2, 4)
        noised = counts + rng.normal(0, std, (2, 4))
        described = describe(column, noised, std**2)["age"]
        v, x = chances
        y, w = chances[:, described["reference"]]
        truth = {"shares": x / (x + v), "odds_ratios": x * y / (v * w)}
        compared += np.arange(4) != described["reference"]
        for name, true in truth.items():
            for part, (_, low, high) in enumerate(described[name]):
                if name == "odds_ratios" and part == described["reference"]:
                    continue
                low, high = (np.inf if end is None else end for end in (low, high))
                near = low - 0.005 <= true[part] <= high + 0.005
                covered[name][part] += near
    assert (covered["shares"] / draws >= 0.92).all(), covered
    often = compared > 100
    assert (covered["odds_ratios"][often] / compared[often] >= 0.92).all(), covered
    assert covered["shares"].sum() / draws / 4 <= 0.975  # no wider than need be


@pytest.mark.hole
def test_the_intervals_of_many_rows_cover_what_lies_between_two_shares() -> None:
    """Of 200,000 rows, of which 1.35 % were ill, 1.3 % (1.3 to 1.3) was published."""
    parts, odds = np.array([0.6, 0.4]), np.array([0.0135 / 0.9865, 0.0269 / 0.9731])
    chances = np.stack([parts / (1 + odds), parts * odds / (1 + odds)])
    column = {"sex": SchemaColumn("category", values=("F", "M"))}
    rng, covered = np.random.default_rng(0), np.zeros(3)
    for _ in range(100):
        counts = rng.multinomial(200_000, chances.ravel()).reshape(2, 2)
        noised = counts + rng.normal(0, 4, (2, 2))
        (described,) = describe(column, noised, 16.0).values()
        intervals = [*described["shares"], described["odds_ratios"][1]]
        truth = [*odds / (1 + odds), odds[1] / odds[0]]
        for number, ((_, low, high), true) in enumerate(
            zip(intervals, truth, strict=True)
        ):
            covered[number] += low <= true <= high
    assert (covered >= 91).all(), covered


@pytest.mark.hole
def test_parts_that_may_be_noise_alone_tell_nothing() -> None:
    """Of a value that no row had, 100 % (66.8 to 100) were published, of -17 rows."""
    counts = np.array([[6.34, -0.58, 100, 20], [-17.35, -13.9, 50, 20]])
    described = describe({"age": COLUMNS["age"]}, counts, 36.0)["age"]
    for part in (0, 1):
        assert described["shares"][part][1:] == [0, 1]
        assert described["odds_ratios"][part][1:] == [0, None]
    assert 0.2 < described["shares"][2][1] < described["shares"][2][2] < 0.5
