"""Where float32's noise ends, and what that turns nominal."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ledgers import Book, record
from published import epsilon_of, make
from scipy import stats

from fedsvp_jax.accounting import (
    Account,
    OtherCosts,
    Participation,
    SpendingPlan,
    claims,
)
from fedsvp_jax.accounting.claims import spent_by_copies
from fedsvp_jax.accounting.noise_ends import certain_chance
from fedsvp_jax.core import prng
from fedsvp_jax.core.prng import NORMAL_END
from fedsvp_jax.deploy.policy import make_policy
from fedsvp_jax.mechanisms.subsampling import Subsampling

pytestmark = pytest.mark.hole
END = float(stats.norm.isf(2.0**-65))  # of what `prng.normal` draws
GAUSSIAN = {"clipping": "update_clip", "l2_norm_clip": 1.0, "delta": 1e-5}


def drawn(patch: pytest.MonkeyPatch, first: Any, both: Any) -> np.ndarray:
    """What `normal` makes of hashes with these first words and these sums of words."""
    words = jnp.asarray(first, jnp.uint32), jnp.asarray(both, jnp.uint32)
    patch.setattr(prng, "_threefry2x32", lambda *_: (words[0], words[0] ^ words[1]))
    return np.asarray(prng.normal(jax.random.key(0), len(first)), np.float64)


def test_the_tail_is_the_normals_down_to_2_to_the_minus_65(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ended at −5.42 and 5.22, values that had a chance of 2^-23 each."""
    rng = np.random.default_rng(0)
    low = np.concatenate([[0, 0, 0, 1, 511], rng.integers(0, 512, 5000)])
    first = np.concatenate(
        [[0, 1, 2**32 - 1, 0, 2**32 - 1], rng.integers(0, 2**32, 5000)]
    )
    chance = 2.0**-23 * (low + (first + 0.5) * 2.0**-32) / 512
    wanted = stats.norm.isf(chance)
    upper = drawn(monkeypatch, first, ((2**23 - 1) << 9) + low)
    lower = drawn(monkeypatch, first, low)
    np.testing.assert_allclose(upper, wanted, atol=2e-5)
    np.testing.assert_allclose(lower, -wanted, atol=2e-5)
    assert upper.max() == pytest.approx(END, abs=1e-4) and upper.max() >= NORMAL_END
    assert upper[1:].max() < upper.max()
    near = drawn(monkeypatch, [0, 0], [1 << 9, (2**23 - 2) << 9])
    np.testing.assert_allclose(near, [-5.1247, 5.0609], atol=1e-4)


def worst(z: float, sums: int, dimension: int) -> float:
    """The largest chance found of an output that one neighbour alone can have."""

    def chance(moves: np.ndarray) -> float:
        return float((stats.norm.cdf(moves - END) - stats.norm.cdf(-END)).sum())

    spread = [
        sums * chance(np.full(number, 1 / (z * math.sqrt(number))))
        for number in 2 ** np.arange(int(math.log2(dimension)) + 1)
    ]
    share = np.linspace(0, 1, 200)
    both = [
        sums
        * (
            chance(np.asarray([math.sqrt(part) / z]))
            + dimension * chance(np.asarray([math.sqrt((1 - part) / dimension) / z]))
        )
        for part in share
    ]
    return min(1.0, max(spread + both))


@pytest.mark.parametrize("z", [0.13, 0.15, 0.2, 0.3, 0.5, 1.0, 4.0, 50.0])
@pytest.mark.parametrize(("sums", "dimension"), [(1, 1), (40, 2**10), (400, 2**20)])
def test_no_difference_tells_more_for_certain_than_is_counted(
    z: float, sums: int, dimension: int
) -> None:
    found = worst(z, sums, dimension)
    assert found <= certain_chance(z, sums)
    alone = sums * float(stats.norm.cdf(1 / z - END))
    spread = 3e-13 * math.sqrt(sums) / z  # of 2^40 numbers
    assert certain_chance(z, sums) <= min(1.0, 1.01 * alone + spread)


def test_rate_number_and_the_limit_of_the_bound() -> None:
    assert certain_chance(0.3, 10, 0.5) == pytest.approx(certain_chance(0.3, 10) / 2)
    assert certain_chance(0.3, 20) == pytest.approx(
        2 * certain_chance(0.3, 10), rel=1e-3
    )
    assert certain_chance(0.122, 1) == certain_chance(0.0, 1) == 1.0
    assert certain_chance(0.0, 0) == certain_chance(0.3, 0) == 0.0
    # (Φ(v − c) − Φ(−c) − φ(c)v)/v² grows where the bound is used.
    v = np.linspace(0.5, END - 1, 500)
    rest = stats.norm.cdf(v - END) - stats.norm.cdf(-END) - stats.norm.pdf(END) * v
    assert np.all(np.diff(rest / v**2) > -1e-19)


def book(z: float, rounds: int, **more: Any) -> Account:
    mechanism = make("gaussian", epsilon=epsilon_of(z, 1e-5), **GAUSSIAN | more)
    found = Book(4, mechanism)
    for _ in range(rounds):
        record(found, [0, 1], multiplier=z, std=2 * z, weights=0.5, delta=1e-5)
    return found.account


@pytest.mark.parametrize(
    ("z", "rounds", "proved"),
    [(0.19, 1, False), (0.21, 1, True), (0.21, 3, False), (0.3, 40, True)]
    + [
        (z * math.sqrt(rounds), rounds, True)
        for z in (0.6, 3.7)
        for rounds in (40, 400)
    ],
)
def test_a_row_is_nominal_where_noise_that_ends_tells_more_than_delta(
    z: float, rounds: int, proved: bool
) -> None:
    """ε = 8 and 1 at δ = 1e-5 are z = .6 and 3.7 for all rounds together."""
    account = book(z, rounds)
    assert (rounds * stats.norm.cdf(1 / z - END) <= 1e-5) == proved
    (server,) = (
        row
        for row in claims.table(account, ("rdp",))
        if (row.adversary, row.method) == ("server", "rdp")
    )
    assert server.proved == proved
    assert ("float32's noise ends" in server.assumptions) != proved
    assert "noise is counted as real numbers" in server.assumptions
    assert claims.row(account, last=False)["status"]["rdp"] == server.status
    who = Participation(num_rounds=rounds)
    planned = claims.planned_row(Account.of(account.mechanism, who))
    assert planned["status"]["rdp"] == server.status
    told = claims.of_upload(account, 1e3, 1e-5)["status"]
    assert told == ("proved" if z > 0.2 else "nominal")


def test_discrete_noise_has_no_end_and_no_rounding() -> None:
    account = book(0.15, 1, noise_sampler="discrete", noise_bits=16)
    rows = claims.table(account, ("rdp",))
    assert all(row.proved for row in rows)
    assert not any("real numbers" in row.assumptions for row in rows)
    assert claims.of_upload(account, 1e3, 1e-5)["status"] == "proved"


def test_a_deployed_clients_noise_is_discrete() -> None:
    from fedsvp_jax.config import ExperimentConfig

    told = GAUSSIAN | {"epsilon": epsilon_of(0.15, 1e-5)}
    config = ExperimentConfig(mechanism="gaussian", **told)
    policy = make_policy(config, min_num_examples=40)
    assert policy.mechanism.basis.discrete and policy.says()["status"] == "proved"
    sums = SpendingPlan(policy.account).sums(1)
    assert sums.least_multiplier == pytest.approx(0.15)
    assert policy.account.certain_chance(sums, OtherCosts()) == 0


def test_copies_steps_and_the_filter_are_counted_as_often_as_they_are() -> None:
    mechanism = make("gaussian", epsilon=epsilon_of(0.23, 1e-5), **GAUSSIAN)
    for copies, proved in ((1, True), (4, False)):
        found = Book(4, mechanism, who={"copies": 4})
        record(found, range(4), multiplier=0.208, std=0.46, weights=0.25, delta=1e-5)
        rows = claims.table(found.account, ("rdp",))
        chosen = [row for row in rows if row.copies == copies and row.method == "rdp"]
        assert len(chosen) == 4 and {row.proved for row in chosen} == {proved}
    steps = Book(1, subsampling=Subsampling(((0.01, 100),), 100), proved=True)
    record(steps, [0], multiplier=0.025, std=0.025)
    sums, one = steps.account.most_spent("server"), float(stats.norm.cdf(4 - END))
    for cost, chance in (
        (OtherCosts(), 100 * 0.01 * one),
        (OtherCosts(passes=3, contribution_multiplier=0.25), (100 * 0.01 + 3) * one),
    ):
        found = steps.account.certain_chance(sums, cost)
        assert found == pytest.approx(chance, rel=0.01)


CENTRAL = {"proved": True, "view": "observer", "against_server": False}


@pytest.mark.parametrize(("seed", "copies"), [(0, 1), (1, 2), (2, 5), (3, 12)])
def test_copies_move_an_average_by_no_more_than_their_row_counts(
    seed: int, copies: int
) -> None:
    """It counted one client's z: with 12 copies Φ(8 − c) = 0.12 was counted as 1e-16.

    Holders, weights and noise are drawn; the moves of every average are summed.
    """
    rng = np.random.default_rng(seed)
    book, chance, found = Book(14, who={"copies": copies}, **CENTRAL), 0.0, []
    for _ in range(6):
        ids = rng.permutation(14)[: rng.integers(copies, 15)]
        z, weights = rng.uniform(0.4, 1, len(ids)), rng.uniform(0.9, 1.1, len(ids))
        weights /= weights.sum()
        record(book, ids, multiplier=z, std=z, weights=weights)
        holds = np.isin(ids, np.arange(copies))
        move = weights[holds].sum() / np.sqrt(np.square(weights * z).sum())
        chance += float(stats.norm.cdf(move - END) - stats.norm.cdf(-END))
        found.append(move)
    _, certain = spent_by_copies(book.account, "rdp", "observer")
    assert chance <= certain
    assert copies == 1 or max(found) > 0.5


def rows_of(book: Book, copies: int) -> list[claims.Claim]:
    return [
        row
        for row in claims.table(book.account, ("rdp",))
        if row.copies == copies and row.method == "rdp"
    ]


def test_copies_in_one_cohort_are_nominal_where_their_sum_tells() -> None:
    """Where the uploads are claimed, the average tells no more than they do."""
    told = {"multiplier": 1.5 / math.sqrt(14), "std": 1.0, "weights": 1 / 14}
    book = Book(14, who={"copies": 12}, **CENTRAL)
    record(book, range(14), **told)
    rows = rows_of(book, 12)
    assert rows and not any(row.proved for row in rows)
    assert all(row.proved for row in rows_of(book, 1))
    uploads = Book(4, who={"copies": 4}, proved=True)
    record(uploads, range(4), multiplier=0.25, std=1.0, weights=0.25)
    assert 4 * stats.norm.cdf(4 - END) < 1e-5 < stats.norm.cdf(8 - END)
    assert [row.proved for row in rows_of(uploads, 4)] == [True] * 4


@pytest.mark.parametrize(("z", "proved"), [(0.21, False), (0.3, False), (0.5, True)])
def test_a_swapped_clients_move_is_counted_whole(z: float, proved: bool) -> None:
    """A swap moves the sum by 2/z; 1/z was counted, and the row was proved."""
    who = {"equal_weights": True, "cohort_size": 2}
    book = Book(4, who=who, client_swap=2.0, **CENTRAL)
    record(book, [0, 1], multiplier=z / math.sqrt(2), std=1.0, weights=0.5)
    (row,) = [one for one in claims.table(book.account, ()) if "sampled" in one.method]
    assert row.proved == proved
    # Two noises, each of which ends, and a client that is drawn in half of the rounds.
    noise = np.linspace(-END, END, 20_001)
    mass = stats.norm.pdf(noise)
    beyond = stats.norm.sf(2 * END - 2 * math.sqrt(2) / z - noise)
    chance = 0.5 * float(mass / mass.sum() @ beyond)
    assert chance <= 1e-5 or not row.proved
    assert z != 0.21 or chance > 1e-5


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("batch_size", {"clipping": "per_example", "batch_size": 2**20 + 1}),
        (
            "the examples of a client",
            {"clipping": "attribute_records", "max_num_examples": 2**20 + 1},
        ),
    ],
)
def test_means_of_more_records_than_float32_tells_apart_are_refused(
    name: str, told: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be at most 1048576 with"):
        make("nbafl", **told)
    (field,) = set(told) - {"clipping"}
    make("nbafl", **told | {field: 2**20})
    clip, least = np.float32(1), 1 / (NORMAL_END - 1)  # z of any proved row
    assert least * clip / 2**20 >= np.spacing(clip) * 0.98
