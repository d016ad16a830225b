"""The accuracy that may be published: its noise is what is claimed of a test row."""

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
from scipy import stats
from small_runs import digits, run_small, shared_rounds, small

from fedsvp_jax import run
from fedsvp_jax.core import prng
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn
from fedsvp_jax.data.tables.table import from_table
from fedsvp_jax.mechanisms import discrete_gaussian
from fedsvp_jax.report import headline
from fedsvp_jax.run import published_scores, sweep

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
    bought: tuple[int, float] = (0, 0.0),
) -> Any:
    root = jax.tree.map(lambda key: key[None], prng.run_keys(seed, (digest, 2)))
    return SimpleNamespace(
        configs=(SimpleNamespace(validation_examples=0),),
        data=SimpleNamespace(
            fingerprint="of the data", rows_per_person=rows_per_person, bought=bought
        ),
        cells=SimpleNamespace(root=root),
    )


def published(
    right: int,
    *,
    seed: int = 0,
    digest: int = 1,
    epsilon: float = 1.0,
    model: str = "one",
    rows_per_person: int | None = None,
) -> int:
    """The count that a run publishes of so many right answers."""
    promise = {"method": "promise by pld", "epsilon": epsilon, "assumptions": "one"}
    summary = {"guarantees": [promise], "params_sha256": model}
    answers = np.arange(ROWS) < right
    program = program_of(seed, digest, rows_per_person)
    scores = published_scores.noised_accuracy(answers, program, summary)
    return round(scores["accuracy"] * ROWS)


def probabilities(right: int, epsilon: float) -> np.ndarray:
    """Of each count that may be published, from the definition, by summation."""
    wide = 4000
    noise = np.arange(-wide, wide + 1)
    weight = np.exp(-epsilon * np.abs(noise))
    counts = np.clip(right + noise, 0, ROWS)
    return np.bincount(counts, weight / weight.sum(), ROWS + 1)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_by_enumeration_one_row_moves_no_probability_by_more(epsilon: float) -> None:
    for right in range(ROWS):
        one, other = (probabilities(n, epsilon) for n in (right, right + 1))
        assert np.abs(np.log(one / other)).max() == pytest.approx(epsilon)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_the_sampler_draws_those_probabilities(epsilon: float) -> None:
    words = discrete_gaussian.seeded_words(7)
    drawn = [discrete_gaussian.discrete_laplace(epsilon, words) for _ in range(3000)]
    seen = np.bincount(np.clip(20 + np.array(drawn), 0, ROWS), minlength=ROWS + 1)
    wanted = len(drawn) * probabilities(20, epsilon)
    often = wanted > 10
    seen = np.append(seen[often], seen[~often].sum())
    wanted = np.append(wanted[often], wanted[~often].sum())
    assert stats.chisquare(seen, wanted).pvalue > 0.01
    with pytest.raises(ValueError, match=r"at least 2\^-20, got 1e-09"):
        discrete_gaussian.discrete_laplace(1e-9, words)


@pytest.mark.parametrize("most", [None, 2])
def test_two_worlds_that_differ_in_a_test_row_are_told_apart_as_claimed(
    most: int | None,
) -> None:
    """The best guess is a threshold; its odds move by e^ε, no more and no less.

    So do they where all rows of a person, `most`, differ at once.
    """
    draws, right = range(800), 20 + (most or 1)
    counts = [
        [published(n, model=f"{n} {draw}", rows_per_person=most) for draw in draws]
        for n in (20, right)
    ]
    without, with_it = (np.mean(np.array(one) >= right) for one in counts)
    assert math.log(with_it / without) == pytest.approx(1.0, abs=0.15)
    below, above = (np.mean(np.array(one) < 21) for one in counts)
    assert math.log(below / above) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(
    "change",
    [{"model": "other"}, {"epsilon": 0.2001}, {"seed": 100}, {"digest": 3}],
)
def test_two_releases_of_one_seed_share_no_noise(change: dict[str, Any]) -> None:
    """Or the difference of two of them would be bare."""
    same: dict[str, Any] = {"epsilon": 0.2, "seed": 0}
    pairs = []
    for number in range(40):
        one = same | {"model": str(number)}
        other = one | change
        if "model" in change:
            other["model"] += str(number)
        pairs.append((published(20, **one), published(20, **other)))
        assert published(20, **one) == pairs[-1][0]
    assert np.mean([one == other for one, other in pairs]) < 0.5


def test_the_interval_covers_sampling_and_noise() -> None:
    rng = np.random.default_rng(0)
    for epsilon, share in ((0.3, 0.9), (3.0, 0.6)):
        decay = math.exp(-epsilon)
        noise = rng.geometric(1 - decay, 2000) - rng.geometric(1 - decay, 2000)
        counts = rng.binomial(ROWS, share, 2000) + noise
        ends = [published_scores.interval(int(n), ROWS, epsilon) for n in counts]
        covered = np.mean([low <= share <= high for low, high in ends])
        assert 0.95 <= covered <= 0.999
    assert published_scores.interval(ROWS + 5, ROWS, 3.0)[1] == 1.0
    assert published_scores.interval(-5, ROWS, 3.0)[0] == 0.0


def own() -> Dataset:
    return dataclasses.replace(digits(), public_test=False)


def test_a_run_writes_shows_and_claims_it(tmp_path: pathlib.Path) -> None:
    summary = run_small(small(**HIDING), tmp_path / "a", dataset=own())
    scores = summary["published_scores"]
    rows = len(own().test_labels)
    assert scores["rows"] == rows and scores["epsilon"] == 3.0
    count = scores["accuracy"] * rows
    assert count == pytest.approx(round(count))
    assert abs(count - summary["final_accuracy"] * rows) < 20
    assert (scores["adversary"], scores["status"]) == ("public", "proved")
    told = " ".join(headline.sentences(tmp_path / "a", summary).values())
    assert "Against whoever sees the published accuracy: ε = 3 at δ" in told
    assert "publish the score with noise alone" in told
    assert "replacing one test row by any other" in guarantee_table(
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


@pytest.mark.hole
@pytest.mark.parametrize("count", [-60, 0, 80, 140])
def test_an_interval_has_ends_wherever_the_noise_leads(count: int) -> None:
    """Beyond the number of rows by more than its width an end was no number."""
    low, high = published_scores.interval(count, 80, 1.0)
    assert 0 <= low < high <= 1
