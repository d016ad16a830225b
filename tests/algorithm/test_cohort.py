"""Cohorts are uniform draws without replacement; their uploads are averaged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedsvp_jax import prng
from fedsvp_jax.accounting import Allowance
from fedsvp_jax.algorithm import aggregation, cohort


def draws(
    count: int, num_clients: int, size: int, eligible: np.ndarray | None = None
) -> np.ndarray:
    """(count, size) cohorts of as many keys, under jit and vmap."""
    keys = jax.random.split(prng.root_key(0), count)
    mask = None if eligible is None else jnp.asarray(eligible)

    @jax.jit
    def sample(keys: jax.Array) -> jax.Array:
        return jax.vmap(
            lambda key: cohort.sample_cohort(key, num_clients, size, eligible=mask)
        )(keys)

    return np.asarray(sample(keys))


def test_every_eligible_pair_is_equally_likely_and_no_other_drawn() -> None:
    eligible = np.array([True, False, True, True, False, True, True])
    ids = draws(20_000, 7, 2, eligible)
    assert eligible[ids].all()
    counts = np.bincount(ids[:, 0] * 7 + ids[:, 1])
    assert stats.chisquare(counts[counts > 0]).pvalue > 1e-4
    assert (counts > 0).sum() == 10


@given(mask=st.lists(st.booleans(), min_size=8, max_size=8), size=st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_missing_clients_are_marked_at_the_end(mask: list[bool], size: int) -> None:
    eligible = jnp.array(mask)
    ids = np.asarray(cohort.sample_cohort(prng.root_key(1), 8, size, eligible=eligible))
    present = min(size, sum(mask))
    assert (ids[present:] == cohort.NOBODY).all()
    assert np.array(mask)[ids[:present]].all()
    assert ids.dtype == np.int32 and (np.diff(ids[:present]) > 0).all()


def test_who_can_pay_and_is_admitted_may_take_part() -> None:
    spent = jnp.asarray([0, 3, 4, 9], jnp.int32)
    costs, budget = jnp.asarray([1, 2], jnp.int32), jnp.int32(5)
    allowance = Allowance(costs, budget, jnp.int32(1))
    for round_num, expected in (
        (0, [True, True, True, False]),
        (1, [True, True, False, False]),
        (7, [True, True, False, False]),
    ):
        assert cohort.may_take_part(allowance, spent, round_num).tolist() == expected
    admitted = jnp.asarray([False, True, True, True])
    able = cohort.may_take_part(allowance, spent, 0, admitted=admitted)
    assert able.tolist() == [False, True, True, False]


@jax.jit(static_argnums=(5, 6))
def rounds_of(
    seed: int,
    budgets: jax.Array,
    spent: jax.Array,
    admitted: jax.Array,
    least: int,
    size: int,
    cohorts: str,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Two turns of everybody: cohorts, whether it is over, cohorts without a least."""
    asked = prng.root_key(seed)
    free = Allowance(jnp.ones(2, jnp.int32), budgets, jnp.int32(1))
    bound = free._replace(least_cohort=jnp.int32(least))

    def of(round_num: jax.Array, allowance: Allowance = bound) -> jax.Array:
        return cohort.cohort_of_round(
            asked,
            allowance,
            spent,
            round_num,
            cohort_size=size,
            cohorts=cohorts,
            admitted=admitted,
        )

    def over(round_num: jax.Array) -> jax.Array:
        return cohort.is_over(
            asked,
            bound,
            spent,
            round_num,
            cohort_size=size,
            cohorts=cohorts,
            admitted=admitted,
        )

    rounds = jnp.arange(2 * len(spent))
    thinned = jax.vmap(lambda t: of(t, free))(rounds)
    return jax.vmap(of)(rounds), jax.vmap(over)(rounds), thinned


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
    able = np.asarray(admitted) & (np.asarray(spent) < 2)
    found, over, thinned = (
        np.asarray(leaf)
        for leaf in rounds_of(
            seed,
            jnp.int32(2),
            jnp.asarray(spent, jnp.int32),
            jnp.asarray(admitted),
            least,
            size,
            cohorts,
        )
    )
    whole = (thinned >= 0).sum(1) >= least
    np.testing.assert_array_equal(
        found, np.where(whole[:, None], thinned, cohort.NOBODY)
    )
    assert able[found[found >= 0]].all()
    assert (over == (not whole.any())).all()


def test_dealt_cohorts_take_turns_and_a_clients_uploads_lie_a_turn_apart() -> None:
    key = prng.root_key(4)
    eligible = jnp.arange(12) != 5

    allowance = Allowance(jnp.zeros(1, jnp.int32), jnp.int32(0), jnp.int32(1))

    def of(round_num: int, **more: jax.Array) -> list[int]:
        found = cohort.cohort_of_round(
            key,
            allowance,
            jnp.zeros(12, jnp.int32),
            round_num,
            cohort_size=3,
            cohorts="cyclic",
            **more,
        )
        return np.asarray(found).tolist()

    rounds = [of(t) for t in range(8)]
    assert sorted(i for ids in rounds[:4] for i in ids) == list(range(12))
    assert rounds[4:] == rounds[:4]
    assert all(ids == sorted(ids) for ids in rounds)
    without = [of(t, admitted=eligible) for t in range(4)]
    left = [sorted(set(ids) - {5}) for ids in rounds[:4]]
    assert [[i for i in ids if i != cohort.NOBODY] for ids in without] == left
    other = [cohort.dealt_cohort(prng.root_key(9), t, 12, 3).tolist() for t in range(4)]
    assert other != rounds[:4]


def test_weighted_mean_of_two_clients_is_the_one_of_methods_section_4() -> None:
    weights = aggregation.client_weights(
        jnp.asarray([100, 300]), jnp.asarray([True, True]), uniform=False
    )
    uploads = jnp.asarray([[1.0, 2.0], [3.0, 6.0]])
    mean = jnp.sum(jax.vmap(aggregation.weighted)(uploads, weights), axis=0)
    np.testing.assert_allclose(mean, [2.5, 5.0])


@pytest.mark.parametrize(
    ("sizes", "valid", "uniform", "expected"),
    [
        ([100, 300, 500], [True, True, False], True, [0.5, 0.5, 0.0]),
        ([0, 0], [False, False], False, [0.0, 0.0]),
        ([1, 7], [True, False], False, [1.0, 0.0]),
    ],
    ids=["uniform, with an empty place", "an empty cohort", "a single client"],
)
def test_weights_sum_to_one_over_those_who_take_part(
    sizes: list[int], valid: list[bool], uniform: bool, expected: list[float]
) -> None:
    weights = aggregation.client_weights(
        jnp.asarray(sizes), jnp.asarray(valid), uniform=uniform
    )
    np.testing.assert_allclose(weights, expected)


def test_a_client_without_weight_adds_nothing_even_when_it_diverged() -> None:
    upload = jnp.asarray([jnp.nan, jnp.inf])
    np.testing.assert_array_equal(
        aggregation.weighted(upload, jnp.float32(0.0)), [0.0, 0.0]
    )
