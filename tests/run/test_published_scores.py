"""Scores that may be published: their noise is what is claimed of a test row."""

import copy
import dataclasses
import math
import pathlib
from functools import cache
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from page_parts import guarantee_table
from scipy import special, stats
from small_runs import digits, run_small, shared_rounds, small

from fedsvp_jax import run
from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.accounting.composition import composed_epsilon
from fedsvp_jax.accounting.participation import SEED
from fedsvp_jax.core import prng
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn
from fedsvp_jax.data.tables.scores import auc
from fedsvp_jax.data.tables.table import from_table
from fedsvp_jax.mechanisms.calibration import analytic_multiplier
from fedsvp_jax.mechanisms.grid import Grid
from fedsvp_jax.report import headline, reports
from fedsvp_jax.run import published_scores, sweep
from fedsvp_jax.run.published_scores import ScoreRelease

pytestmark = [pytest.mark.hole, pytest.mark.usefixtures(shared_rounds.__name__)]
ROWS = 40
HIDING = {
    "mechanism": "nbafl",
    "clipping": "per_example",
    "calibration": "analytic",
    "num_attributes": 1,
    "total_epsilon": 3.0,
    "solve": "noise",
    "num_rounds": 1,
    "publish_scores": True,
}


@cache
def program_of(
    seed: int,
    digest: int,
    rows_per_person: int | None = None,
    relation: str = "replace one record",
) -> Any:
    root = jax.tree.map(lambda key: key[None], prng.run_keys(seed, (digest, 2)))
    basis = SimpleNamespace(relation=relation)
    return SimpleNamespace(
        configs=(SimpleNamespace(validation_examples=0),),
        mechanism=SimpleNamespace(basis=basis),
        data=SimpleNamespace(
            fingerprint="of the data", rows_per_person=rows_per_person, bought=(0, 0.0)
        ),
        cells=SimpleNamespace(root=root),
    )


def scores_of(
    chances: np.ndarray,
    labels: np.ndarray,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    model: str = "one",
    columns: dict[str, SchemaColumn] | None = None,
    inputs: np.ndarray | None = None,
    **of_program: Any,
) -> Any:
    """What a run publishes of a model's chances of the second class."""
    promise = {"method": "promise by pld", "epsilon": epsilon, "assumptions": "one"}
    promise["delta"] = delta
    summary = {"guarantees": [promise], "params_sha256": model}
    program = copy.deepcopy(program_of(**{"seed": 0, "digest": 1} | of_program))
    both = np.stack([1 - chances, chances], 1)
    program.data.test = SimpleNamespace(inputs=both if inputs is None else inputs)
    return published_scores.noised_scores(
        both, labels, ("no", "yes"), columns or {}, program, summary
    )


def published(right: int, **changes: Any) -> float:
    """The noised count of the lower half, where so many of the rows are."""
    chances = np.where(np.arange(ROWS) < right, 0.02, 0.52)
    return float(scores_of(chances, np.zeros(ROWS, int), **changes)["counts"][0][0])


@pytest.mark.parametrize(
    ("relation", "most", "length"),
    [
        ("replace one record of a client", None, 2**0.5),
        ("leave one record of a client out", None, 1.0),
        ("leave all rows of a person out", 3, 3.0),
        ("replace all rows of a person", 2, 8**0.5),
    ],
)
def test_the_noise_is_as_large_as_epsilon_and_delta_ask(
    relation: str, most: int | None, length: float
) -> None:
    """By many releases; z is analytic, and a row is counted at eight levels."""
    program = {"relation": relation, "rows_per_person": most}
    draws = [
        np.array(
            scores_of(np.full(3, 0.5), np.zeros(3, int), model=str(n), **program)[
                "counts"
            ]
        )
        for n in range(40)
    ]
    wanted = length * 8**0.5 * float(analytic_multiplier(1.0, 1e-5))
    spread = np.std(draws, axis=0).mean() * math.sqrt(40 / 39)
    assert spread == pytest.approx(wanted, rel=0.04)
    assert np.mean(draws, axis=0)[0, 0] == pytest.approx(3, abs=4 * wanted / 40**0.5)


@pytest.fixture
def without_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts alone, where a test draws them often."""

    def counts(release: ScoreRelease, total: np.ndarray, _: int) -> dict[str, Any]:
        return {"counts": total * release.step}

    monkeypatch.setattr(ScoreRelease, "estimate_scores", counts)


@pytest.mark.usefixtures("without_estimates")
@pytest.mark.parametrize("most", [None, 2])
def test_two_worlds_that_differ_in_a_test_row_are_told_apart_as_claimed(
    most: int | None,
) -> None:
    """The best guess follows the move's direction: right in Φ(μ/2) of all guesses.

    So it is where all rows of a person, `most`, differ at once.
    """
    moved, draws = most or 1, range(400)
    rows = [np.where(np.arange(ROWS) < n, 0.02, 0.52) for n in (20, 20 + moved)]
    labels = np.zeros(ROWS, int)
    releases = [
        [
            scores_of(chances, labels, model=f"{n} {draw}", rows_per_person=most)
            for draw in draws
        ]
        for n, chances in enumerate(rows)
    ]
    bare = [
        release_of(ROWS).count_rows(
            np.stack([1 - chances, chances], 1), labels, chances
        )
        for chances in rows
    ]
    along, middle = bare[1] - bare[0], (bare[0] + bare[1]) / 2
    gaps = [
        np.array([np.vdot(one["counts"] - middle, along) for one in world])
        for world in releases
    ]
    right = np.mean([np.mean(gaps[0] < 0), np.mean(gaps[1] > 0)])
    claimed = releases[0][0]["risk"]["right_of_100"] / 100
    mu = 1 / float(analytic_multiplier(1.0, 1e-5))
    assert claimed == pytest.approx(stats.norm.cdf(mu / 2), rel=1e-4)
    assert right == pytest.approx(claimed, abs=0.04)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (3.0, 1e-5), (8.0, 1e-4)])
def test_a_test_row_is_guessed_no_more_often_than_a_training_row(
    epsilon: float, delta: float
) -> None:
    """96 of 100 stood against 70 while the noise was of pure ε."""
    of_test = scores_of(np.ones(3) / 2, np.ones(3, int), epsilon=epsilon, delta=delta)
    right = of_test["risk"]["right_of_100"]
    exact = tradeoff.risk([(epsilon, delta)], exact=True)["right_of_100"]
    assert right == pytest.approx(exact, rel=1e-4)
    assert right < tradeoff.of_promises([(epsilon, delta, "rdp")])["right_of_100"]


def test_bounds_that_were_bought_leave_less_noise_budget() -> None:
    multiplier, risk = tradeoff.of_gaussian(3.0, 1e-5, (6, 0.2))
    spent = composed_epsilon("pld", multiplier**-2, 1e-5, responses=[(6, 0.2)])
    assert 2.999 < spent <= 3.0 and not risk["exact"]
    least, most = (float(analytic_multiplier(e, 1e-5)) for e in (3.0, 1.8))
    assert least < multiplier < most  # adding ε up is the most that it costs


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"epsilon": 0.2001},
        {"delta": 1.001e-5},
        {"relation": "leave one record"},
        {"seed": 100},
        {"digest": 3},
    ],
)
@pytest.mark.usefixtures("without_estimates")
def test_two_releases_of_one_seed_share_no_noise(change: dict[str, Any]) -> None:
    """Or the difference of two of them would be bare."""
    same: dict[str, Any] = {"epsilon": 0.2, "seed": 0}
    pairs = []
    for number in range(40):
        one = same | {"model": str(number)}
        other = one | change
        if "model" in change:
            other["model"] += str(number)
        pairs.append((published(20, **one) - 20, published(20, **other) - 20))
        assert published(20, **one) - 20 == pairs[-1][0]
    assert abs(stats.spearmanr(*zip(*pairs, strict=True)).statistic) < 0.5


def own() -> Dataset:
    return dataclasses.replace(digits(), public_test=False)


def test_a_run_writes_shows_and_claims_it(tmp_path: pathlib.Path) -> None:
    summary = run_small(small(**HIDING), tmp_path / "a", dataset=own())
    scores = summary["published_scores"]
    rows, classes = len(own().test_labels), own().num_classes
    assert scores["rows"] == rows and scores["epsilon"] == 3.0
    counts = np.array(scores["counts"])
    assert counts.shape == (classes, classes) and "AUC" not in scores
    right = np.trace(counts) - summary["final_accuracy"] * rows
    assert abs(right) < 5 * scores["noise_std"] * classes**0.5
    low, high = scores["accuracy"][1:]
    assert low < summary["final_accuracy"] < high
    again = run_small(small(**HIDING), tmp_path / "c", dataset=own())
    assert again["published_scores"] == scores
    assert (scores["adversary"], scores["status"]) == ("public", "proved")
    assert SEED in scores["assumptions"]  # the scores' noise follows from it too
    said = " ".join(headline.sentences(tmp_path / "a", summary).values())
    assert "Against whoever sees the published scores: ε = 3 at δ" in said
    assert "publish the scores with noise alone" in said
    assert "replacing one record for the test" in guarantee_table(
        [summary["published_scores"]]
    )
    other = run_small(
        small(**HIDING | {"publish_scores": False}), tmp_path / "b", dataset=own()
    )
    assert other["params_sha256"] == summary["params_sha256"]
    assert "published_scores" not in other


def test_which_rows_are_for_the_test_follows_their_clients_alone() -> None:
    """A test row at another client moved rows between the test and the training."""
    rows = np.arange(60)
    table = {"x": rows / 60, "ward": np.array(["a"] * 58 + ["b", "c"]), "ill": rows % 2}
    schema = Schema(
        {"x": SchemaColumn("number", bounds=(0, 1))}, "ill", ("0", "1"), client="ward"
    )

    def tested(changes: dict[str, Any]) -> set[float]:
        changed = table | {
            name: np.where(rows == 3, value, table[name])
            for name, value in changes.items()
        }
        return set(from_table(changed, schema=schema).test_inputs[:, 0].tolist())

    before = tested({})
    row = {float(np.float32(2 * 3 / 60 - 1))}
    assert row < before
    assert before - row < tested({"x": 0.777, "ill": 0})
    assert tested({"ill": 0}) == before
    after = tested({"ward": "b"})
    assert len(after) == len(before) and row.isdisjoint(after)  # another one is in it
    assert "given client" in published_scores._ASSUMPTIONS[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clipping": "update_clip"}, "hide more: .*(--test_data)"),
        ({"total_epsilon": None, "solve": "uploads"}, "needs total_epsilon"),
    ],
)
def test_what_the_epsilon_would_not_cover_is_refused(
    tmp_path: pathlib.Path,
    changes: dict[str, Any],
    message: str,
) -> None:
    config = small(**HIDING | changes)
    with pytest.raises(ValueError, match=message):
        run_small(config, tmp_path / "run", dataset=own())
    assert not (tmp_path / "run").exists()


def test_a_sweep_publishes_nothing(tmp_path: pathlib.Path) -> None:
    plan = sweep.SweepPlan(("nbafl",), (0.5,), (0,))
    with pytest.raises(ValueError, match="publish_scores must be left out of a sweep"):
        run.sweep.sweep(small(**HIDING), plan, tmp_path, dataset=own())


def release_of(rows: int) -> ScoreRelease:
    """Of three sites, each of which adds noise of so much."""
    std = 0.9 * 8**0.5
    return ScoreRelease(("no", "yes"), 1.0, std, Grid(20, 3, rows), "one record")


def test_by_enumeration_a_row_moves_the_counts_by_the_sensitivity() -> None:
    release = release_of(160)
    rng = np.random.default_rng(0)
    chances = rng.random(30)
    chances[:3] = 0, 0.5, 1
    both, labels = np.stack([1 - chances, chances], 1), rng.integers(0, 2, 30)
    counts = release.count_rows(both, labels, both)
    assert counts.shape == release.zeros.shape == (2, 510)
    assert counts.sum() == 8 * 30 and counts[labels[1], 0] >= 1
    assert np.trace(counts[:, :2]) == (both.argmax(1) == labels).sum()
    for row in range(30):
        rest = np.arange(30) != row
        moved = counts - release.count_rows(both[rest], labels[rest], both[rest])
        assert np.linalg.norm(moved) == pytest.approx(8**0.5)
        for chance, label in ((0.9, 0), (0.2, 1)):
            other, named = both.copy(), labels.copy()
            other[row], named[row] = (1 - chance, chance), label
            moved = counts - release.count_rows(other, named, other)
            assert np.linalg.norm(moved) <= 4
    many = np.repeat(both, 10, 0), np.repeat(labels, 10)
    assert (
        release.count_rows(*many, many[0]).sum() == 8 * 160
    )  # as many as train at the largest


@pytest.mark.hole
def test_counts_of_many_rows_are_not_short_of_what_the_grid_took() -> None:
    """Of 30,000 rows 58 were missing, and each count was said to have noise of 3."""
    rows = 30_000
    scores = scores_of(np.full(rows, 0.001), np.zeros(rows, int), epsilon=8.0)
    for place in (0, 2):  # the lower half and quarter
        assert abs(scores["counts"][0][place] - rows) < 5 * scores["noise_std"]


@pytest.mark.parametrize(
    ("rows", "share", "distance", "spread"),
    [
        (300, 0.35, 0.5, 1.0),
        (300, 0.2, 1.5, 1.0),
        (2000, 0.5, 0.0, 1.0),
        (6000, 0.022, 0.2, 0.2),
    ],
)
def test_the_intervals_cover_rows_and_noise_and_the_scores_are_unbiased(
    rows: int, share: float, distance: float, spread: float
) -> None:
    """The truth is of the places' chances: a logistic model's, with normal scores.

    Of a rare outcome all probabilities are small, and were in one of twenty bins.
    """
    release, sites, draws = release_of(rows), 3, 400
    rng = np.random.default_rng(1)
    ends = np.linspace(-1, 1, 257)[1:-1]
    edges, middles = (
        4 * x / (1 - abs(x)) for x in (ends, np.arange(-255, 256, 2) / 256)
    )
    middle = math.log(share / (1 - share))
    ends = [-np.inf, *edges, np.inf]
    means = middle + spread * distance / 2 * np.array([-1, 1])
    shares = [np.diff(stats.norm.cdf(ends, mean, spread)) for mean in means]
    cells = np.array([(1 - share) * shares[0], share * shares[1]])
    right = np.repeat(np.eye(2), 128, 0)
    truth = {
        "accuracy": np.trace(cells @ right),
        "AUC": shares[1] @ (np.cumsum(shares[0]) - shares[0] / 2),
        "share": share,
        "mean": cells.sum(0) @ special.expit(middles),
    }
    exact = stats.norm.cdf(distance / 2**0.5)
    assert truth["AUC"] == pytest.approx(exact, abs=0.003)
    values: dict[str, list[float]] = {name: [] for name in truth}
    covered = dict.fromkeys(truth, 0)
    std = release.share_std * math.sqrt(sites)
    for _ in range(draws):
        places = rng.multinomial(rows, cells.ravel()).reshape(cells.shape)
        noise = rng.normal(0, std, release.zeros.shape)
        total = np.rint((places @ release.sums.T + noise) / release.step)
        scores = release.estimate_scores(total, sites)
        for name, true in truth.items():
            value, low, high = scores[name]
            values[name].append(value)
            covered[name] += low <= true <= high
    for name, true in truth.items():
        assert 0.93 <= covered[name] / draws <= 0.995, (name, covered)
        error = np.std(values[name]) / math.sqrt(draws)
        assert abs(np.mean(values[name]) - true) < 4 * error + 0.01, name
    assert scores["noise_std"] == pytest.approx(std)
    assert scores["guessing"] == pytest.approx(max(share, 1 - share), abs=0.2)


COLUMNS = {
    "age": SchemaColumn("number", bounds=(0, 80), from_data=False),
    "sex": SchemaColumn("category", values=("F", "M")),
    "day": SchemaColumn("date", bounds=(18262.0, 18628.0), from_data=False),
}


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
def test_by_enumeration_columns_move_the_counts_by_the_sensitivity(
    classes: tuple[str, ...],
) -> None:
    """√(l + k) where a row is left out; at most √(2(l + k)) where it is replaced."""
    release = release_of(160)._replace(classes=classes, columns=COLUMNS)
    rng, number = np.random.default_rng(0), len(classes)
    chances = rng.dirichlet(np.ones(number), 30)
    labels = rng.integers(0, number, 30)
    sexes = np.eye(2)[rng.integers(0, 2, 30)]
    ages, days = rng.uniform(-1, 1, (2, 30))
    inputs = np.column_stack([ages, sexes, days]).astype(np.float32)
    counts = release.count_rows(chances, labels, inputs)
    assert counts.shape == release.zeros.shape
    left, replaced = (
        published_scores.score_relation(f"{verb} one record", None, number, 3)[1]
        for verb in ("leave", "replace")
    )
    apart = []
    for row in range(30):
        rest = np.arange(30) != row
        few = release.count_rows(chances[rest], labels[rest], inputs[rest])
        assert np.linalg.norm(counts - few) == pytest.approx(left)
        other = chances.copy(), labels.copy(), inputs.copy()
        other[0][row] = chances[row][::-1]
        other[1][row] = (labels[row] + 1) % number
        other[2][row] = -inputs[row]
        other[2][row, 1:3] = 1 - sexes[row]
        apart.append(np.linalg.norm(counts - release.count_rows(*other)))
    assert max(apart) == pytest.approx(replaced)


def test_columns_are_published_with_the_noise_that_counting_them_asks(
    tmp_path: pathlib.Path,
) -> None:
    rng = np.random.default_rng(0)
    cells = {
        "age": rng.uniform(0, 80, 400),
        "sex": rng.choice(["F", "M"], 400),
        "day": [f"2020-{month:02}-15" for month in rng.integers(1, 13, 400)],
        "ill": rng.integers(0, 2, 400),
        "ward": np.arange(400) % 4,
    }
    data = from_table(cells, schema=Schema(COLUMNS, "ill", ("0", "1"), client="ward"))
    settings = HIDING | {"model": "logistic", "dataset": "csv", "num_clients": 4}
    runs = [
        run_small(
            small(**settings | {"publish_columns": c}), tmp_path / str(c), dataset=data
        )
        for c in (False, True)
    ]
    without, full = (summary["published_scores"] for summary in runs)
    assert without["columns"] == {}
    ratio = full["noise_std"] / without["noise_std"]
    assert ratio == pytest.approx(((8 + 3) / 8) ** 0.5, rel=1e-4)
    assert (full["epsilon"], full["status"]) == (without["epsilon"], without["status"])
    rows = len(data.test_labels)
    for column in full["columns"].values():
        total = np.sum(column["counts"])
        assert (
            abs(total - rows) < 5 * full["noise_std"] * np.size(column["counts"]) ** 0.5
        )
    pages = []
    for folder in ("True", "False"):
        reports.write_run_report(tmp_path / folder)
        pages.append((tmp_path / folder / "protection.html").read_text())
    page, other = pages
    assert "The test rows by column" in page and "20 to below 40" in page
    assert "2020-04-02 to below 2020-07-02" in page
    assert "by what the model says of them or a column holds" in page
    assert "The test rows by column" not in other and "or a column holds" not in other


def test_columns_without_a_schema_are_refused(tmp_path: pathlib.Path) -> None:
    config = small(**HIDING | {"publish_columns": True})
    with pytest.raises(ValueError, match="publish_columns needs a table"):
        run_small(config, tmp_path / "run", dataset=own())


def test_rows_are_counted_where_their_log_odds_are() -> None:
    """All probabilities of a rare outcome were in one of twenty bins: an AUC of 1/2."""
    release, rng = release_of(4000)._replace(share_std=1e-3), np.random.default_rng(0)
    labels = (rng.random(4000) < 0.1).astype(int)
    for middle, spread in ((-4.2, 0.2), (-7.0, 0.5), (0.0, 0.1), (2.0, 3.0)):
        odds = middle + spread * (rng.normal(size=4000) + labels)
        chances = special.expit(np.stack([-odds, odds], 1)).astype(np.float32)
        counts = release.count_rows(chances, labels, chances)
        scores = release.estimate_scores(counts / release.step, 1)
        exact = auc(odds, labels > 0)
        assert exact is not None
        assert scores["AUC"][0] == pytest.approx(exact, abs=0.012), middle


def test_more_classes_are_counted_by_the_class_that_is_predicted() -> None:
    names = ("a", "b", "c")
    release = release_of(160)._replace(classes=names)
    labels = np.array([0, 0, 1, 2, 2, 2])
    chances = np.eye(3)[[0, 1, 1, 2, 2, 0]]
    counts = release.count_rows(chances, labels, chances)
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 2]]
    quiet = release._replace(share_std=1e-9)
    scores = quiet.estimate_scores(counts / quiet.step, 3)
    assert scores["accuracy"][0] == pytest.approx(4 / 6, abs=1e-3)
    assert scores["guessing"] == 0.5 and scores["most_frequent"] == "c"
    assert "AUC" not in scores and scores["rows"] == 6


@pytest.mark.hole
@pytest.mark.parametrize("sign", [-1, 1])
def test_no_share_of_a_few_rows_lies_beyond_one(sign: int) -> None:
    """Naming the most frequent class was right of 1.01 of the rows."""
    release, places = release_of(160), np.zeros((2, 256))
    places[:, 3] = 9 * sign, -8
    counts = places @ release.sums.T
    scores = release.estimate_scores(counts / release.step, 3)
    assert scores["guessing"] == max(sign, 0) and scores["AUC"][1:] == [0, 1]


@pytest.mark.parametrize(
    ("rows", "share", "middle", "apart", "spread", "columns", "half"),
    [
        (299, 0.365, -0.6, 0.5, 1.0, 0, 0.08),
        (299, 0.365, -0.6, 0.5, 1.0, 7, 0.09),
        (1200, 0.021, -4.2, 0.2, 0.25, 0, 0.24),
    ],
)
def test_test_rows_know_an_auc_as_well_as_the_docs_say(
    rows: int,
    share: float,
    middle: float,
    apart: float,
    spread: float,
    columns: int,
    half: float,
) -> None:
    """docs/own_data.md, at ε = 3: medpar, AUC .64, without and with its columns; and a
    rare outcome, AUC .71.
    """
    z, _ = tradeoff.of_gaussian(3.0, 1e-5, (0, 0.0))
    std = z * (8 + columns) ** 0.5
    release = ScoreRelease(("0", "1"), z, std, Grid(28, 1, rows), "one record")
    rng, halves = np.random.default_rng(2), []
    for _ in range(100):
        labels = rng.random(rows) < share
        chances = special.expit(rng.normal(middle + apart * labels, spread))
        both = np.stack([1 - chances, chances], 1)
        counts = release.count_rows(both, labels + 0, both) + rng.normal(
            0, std, (2, 510)
        )
        scores = release.estimate_scores(counts / release.step, 1)
        halves.append(np.ptp(scores["AUC"][1:]) / 2)
    assert np.mean(halves) == pytest.approx(half, rel=0.06)
