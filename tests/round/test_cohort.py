"""Cohorts are uniform draws without replacement; their uploads are averaged."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.core import prng
from fedsvp_jax.models import aggregation
from fedsvp_jax.round import cohort


def test_every_eligible_pair_is_equally_likely_and_no_other_drawn() -> None:
    eligible = np.array([True, False, True, True, False, True, True])
    keys = jax.random.split(prng.root_key(0), 20_000)
    draw = jax.vmap(cohort.sample_cohort, (0, None, None))
    ids = np.asarray(draw(keys, jnp.asarray(eligible), 2))
    assert eligible[ids].all()
    counts = np.bincount(ids[:, 0] * 7 + ids[:, 1])
    assert stats.chisquare(counts[counts > 0]).pvalue > 1e-4
    assert (counts > 0).sum() == 10


@given(mask=st.lists(st.booleans(), min_size=8, max_size=8), size=st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_missing_clients_are_marked_at_the_end(mask: list[bool], size: int) -> None:
    ids = np.asarray(cohort.sample_cohort(prng.root_key(1), jnp.array(mask), size))
    present = min(size, sum(mask))
    assert (ids[present:] == cohort.NOBODY).all()
    assert np.array(mask)[ids[:present]].all()
    assert ids.dtype == np.int32 and (np.diff(ids[:present]) > 0).all()


@jax.jit(static_argnums=(4, 5, 6))
def rounds_of(
    seed: int,
    able: tuple[jax.Array, jax.Array],
    allowance: Allowance,
    number: jax.Array,
    size: int,
    cohorts: str,
    what: str = "cohort_of_round",
) -> jax.Array:
    """What a function of the cohorts says of each of some rounds."""
    spent, admitted = able
    told = {"cohort_size": size, "cohorts": cohorts, "admitted": admitted}
    of = partial(cohort.cohort_of_round, prng.root_key(seed), allowance, spent, **told)
    if what == "is_over":
        turns = len(spent) // size if cohorts == "cyclic" else 1
        of = partial(cohort.is_over, of, turns=turns)
    return jax.vmap(of)(number)


@pytest.mark.hole
@pytest.mark.parametrize("cohorts", ["drawn", "cyclic"])
@pytest.mark.parametrize("size", [1, 2, 4])
@given(
    spent=st.lists(st.integers(0, 2), min_size=8, max_size=8),
    admitted=st.lists(st.booleans(), min_size=8, max_size=8),
    least=st.sampled_from([1, 2, 4]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_a_cohort_is_whole_or_empty_and_the_run_is_over_when_none_is_whole(
    cohorts: str,
    size: int,
    spent: list[int],
    admitted: list[bool],
    least: int,
    seed: int,
) -> None:
    """Before, the federation was counted: cohorts of 2 under a promise made for 4."""
    able = jnp.asarray(spent, jnp.int32), jnp.asarray(admitted)
    free = Allowance(jnp.ones(2, jnp.int32), jnp.int32(2), jnp.int32(1))
    bound = free._replace(least_cohort=jnp.int32(least))
    found, over, thinned = (
        np.asarray(rounds_of(seed, able, told, jnp.arange(16), size, cohorts, what))
        for told, what in (
            (bound, "cohort_of_round"),
            (bound, "is_over"),
            (free, "cohort_of_round"),
        )
    )
    whole = (thinned >= 0).sum(1) >= least
    expected = np.where(whole[:, None], thinned, cohort.NOBODY)
    np.testing.assert_array_equal(found, expected)
    may = np.asarray(admitted) & (np.asarray(spent) < 2)
    assert may[found[found >= 0]].all()
    assert (over == (not whole.any())).all()


def test_dealt_cohorts_take_turns_and_a_clients_uploads_lie_a_turn_apart() -> None:
    allowance = Allowance(jnp.zeros(1, jnp.int32), jnp.int32(0), jnp.int32(1))

    def of(seed: int, eligible: jax.Array) -> list[list[int]]:
        able = jnp.zeros(12, jnp.int32), eligible
        return rounds_of(seed, able, allowance, jnp.arange(8), 3, "cyclic").tolist()

    rounds = of(4, jnp.ones(12, bool))
    assert sorted(i for ids in rounds[:4] for i in ids) == list(range(12))
    assert rounds[4:] == rounds[:4] != of(9, jnp.ones(12, bool))[:4]
    assert all(ids == sorted(ids) for ids in rounds)
    for ids, without in zip(rounds, of(4, jnp.arange(12) != 5), strict=True):
        left = [i for i in ids if i != 5]
        assert without == left + [cohort.NOBODY] * (3 - len(left))


def test_weights_sum_to_one_over_those_who_take_part() -> None:
    for sizes, valid, uniform, expected in (
        ([100, 300], [True, True], False, [0.25, 0.75]),  # docs/methods.md, section 4
        ([100, 300, 500], [True, True, False], True, [0.5, 0.5, 0.0]),
        ([0, 0], [False, False], False, [0.0, 0.0]),
        ([1, 7], [True, False], False, [1.0, 0.0]),
    ):
        told = jnp.asarray(sizes), jnp.asarray(valid)
        weights = aggregation.client_weights(*told, uniform=uniform)
        np.testing.assert_allclose(weights, expected)


def test_a_client_without_weight_adds_nothing_even_when_it_diverged() -> None:
    upload = jnp.asarray([jnp.nan, jnp.inf])
    np.testing.assert_array_equal(
        aggregation.weighted(upload, jnp.float32(0.0)), [0.0, 0.0]
    )
