"""Poisson batches: which steps an upload is made of, and what one step hides."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import published
from scipy import stats

from fedsvp_jax.mechanisms import make_mechanism, subsampling
from fedsvp_jax.round import local_training
from fedsvp_jax.round.local_training import TrainingRecipe

POISSON = {"clipping": "per_example", "relation": "add_remove"}
POISSON |= {"batches": "poisson", "min_num_examples": 2e3, "max_num_examples": 2000}


@pytest.mark.parametrize("local_steps", [None, 3])
def test_every_clients_steps_are_among_the_kinds_or_fewer(local_steps: int | None):
    config = published(**POISSON).replace(
        min_num_examples=30.0, max_num_examples=700, local_steps=local_steps
    )
    found = subsampling.subsampling(config)
    assert found is not None and len(found.kinds) == (4 if local_steps is None else 1)
    recipe = TrainingRecipe(50, 2, "per_example", 90, local_steps)
    for size in range(30, 701):
        steps = int(local_training.upload_steps(recipe, jnp.int32(size)))
        assert any(
            rate >= min(1, 50 / size) and count >= steps for rate, count in found.kinds
        )
        assert steps <= found.most_steps
    assert (steps if local_steps is None else 3) == found.most_steps


def test_clients_of_one_size_are_of_one_kind_that_is_exact():
    found = subsampling.subsampling(published(**POISSON))
    assert found == (((50 / 2000, 80),), 80)  # E = 2 epochs of 40 steps
    mechanism = make_mechanism("nbafl", published("nbafl", **POISSON))
    assert mechanism.subsampling == found
    z = float(mechanism.least_multiplier)
    step = mechanism.step_noise_std(jnp.float32(1.0), round_num=jnp.int32(0))
    (steps,) = found.steps(z, 3)
    assert steps.multiplier == pytest.approx(float(step) * 50 / 20)  # over C/B
    assert steps.number == 240
    shuffled = published("nbafl", **POISSON | {"batches": "shuffled"})
    assert make_mechanism("nbafl", shuffled).subsampling is None


def test_room_is_exceeded_once_in_a_million_runs_by_clients_of_any_size():
    places = subsampling.poisson_places(50, 2000, 3200)
    for size in (51, 100, 500, 1999, 2000):
        assert 3200 * stats.binom.sf(places, size, 50 / size) <= 1e-6
    assert 3200 * stats.binom.sf(places - 1, 2000, 50 / 2000) > 1e-6
    assert subsampling.poisson_places(50, 40, 1) == 40  # the whole data


def test_a_largest_client_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="max_num_examples must be at least"):
        subsampling.subsampling(published(**POISSON | {"max_num_examples": 7}))


def test_a_batch_holds_each_record_with_probability_b_over_d_and_no_others():
    member = jnp.arange(40) < 25

    def draw(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return local_training.poisson_batch(key, member, batch_size=5, places=9)

    keys = jax.random.split(jax.random.key(0), 5_000)
    position, taken = jax.jit(jax.vmap(draw))(keys)
    sizes = np.asarray(taken.sum(1)).astype(int)
    assert set(np.unique(taken)) == {0, 1}
    counts = np.bincount(np.asarray(position)[np.asarray(taken) > 0], minlength=40)
    assert counts[25:].sum() == 0
    kept = stats.binom.cdf(8, 24, 0.2)  # where there is room for it
    np.testing.assert_allclose(counts[:25] / 5_000, 0.2 * kept, atol=0.025)
    fits = stats.binom.cdf(9, 25, 0.2)
    empty = stats.binom.pmf(0, 25, 0.2) + 1 - fits
    np.testing.assert_allclose(np.mean(sizes == 0), empty, atol=0.012)
    assert sizes.max() == 9
    whole = local_training.poisson_batch(
        jax.random.key(0), member, batch_size=25, places=25
    )
    np.testing.assert_array_equal(whole[0], np.arange(25))
    np.testing.assert_array_equal(whole[1], 1)


@pytest.mark.hole
@pytest.mark.parametrize("size", [1_000, 1 << 16, (1 << 16) + 1, 70_000])
def test_a_record_is_drawn_by_a_word_of_64_bits_modulo_the_number_of_records(size: int):
    """Above 2^16 records randint has 32 bits, and another rate than is claimed."""
    key, batch_size = jax.random.key(size), size // 2
    upper, lower = (
        np.asarray(jax.random.bits(half, (size,), np.uint32)).astype(object)
        for half in jax.random.split(key)
    )
    drawn = np.flatnonzero((upper * 2**32 + lower) % size < batch_size)
    position, taken = local_training.poisson_batch(
        key, jnp.ones(size, bool), batch_size=batch_size, places=size
    )
    np.testing.assert_array_equal(position[: len(drawn)], drawn)
    assert taken.sum() == len(drawn)


@pytest.mark.parametrize("size", [70_000, 10_000_000, (1 << 31) - 1])
def test_the_rate_of_such_words_is_the_claimed_one_to_2_64(size: int):
    """By counting them; what is drawn of a few words, by whole numbers of Python."""
    for batch_size in (1, 50, size // 2, size - 1):
        whole, rest = divmod(2**64, size)
        words = whole * batch_size + min(rest, batch_size)
        excess = Fraction(words, 2**64) - Fraction(batch_size, size)
        assert abs(excess) <= Fraction(batch_size, 2**64)
    key = jax.random.key(7)
    upper, lower = (
        jax.random.bits(half, (9,), np.uint32).tolist()
        for half in jax.random.split(key)
    )
    found = local_training._below(key, 9, jnp.int32(size)).tolist()
    assert found == [(u << 32 | v) % size for u, v in zip(upper, lower, strict=True)]


@pytest.mark.hole
def test_a_word_is_reduced_with_three_divisions_however_many_records() -> None:
    """A division in each of 32 doublings took three quarters of a draw's time."""
    draw = jax.make_jaxpr(lambda key, size: local_training._below(key, 9, size))
    [loop] = (
        equation
        for equation in draw(jax.random.key(0), jnp.int32(70_000)).eqns
        if equation.primitive.name == "scan"
    )
    assert "rem" not in str(loop.params["jaxpr"])


AT = np.linspace(-12, 12, 4801)


def density(gradients: Sequence[float], rate: float, kept: int) -> np.ndarray:
    """At `AT`, of a step's sum with noise N(0, 1), over all batches.

    M = 2: of a larger batch the first `kept` records stay.
    """
    found = np.zeros_like(AT)
    for drawn in itertools.product((0, 1), repeat=len(gradients)):
        rows = np.flatnonzero(drawn)
        rows = rows if len(rows) <= 2 else rows[:kept]
        chance = math.prod(rate if taken else 1 - rate for taken in drawn)
        found += chance * stats.norm.pdf(AT, np.take(gradients, rows).sum())
    return found


def delta(p: np.ndarray, q: np.ndarray, factor: float) -> float:
    """The larger of both directions, exact up to the grid."""
    ways = (np.maximum(a - factor * b, 0).sum() for a, b in ((p, q), (q, p)))
    return max(ways) * (AT[1] - AT[0])


def excess(kept: int) -> float:
    """The largest delta over what a subsampled Gaussian has, over tiny federations.

    Four records with gradients of length 1 at most; any one of them is left out: its
    gradient is 0, while it is drawn and counted as before.
    """
    null, moved = stats.norm.pdf(AT), stats.norm.pdf(AT, 1)
    worst = -1.0
    for rate, *gradients in itertools.product((0.2, 0.6), *[(-1.0, 0.0, 1.0)] * 4):
        whole = density(gradients, rate, kept)
        for record in np.flatnonzero(gradients):
            left = [0 if i == record else one for i, one in enumerate(gradients)]
            without = density(left, rate, kept)
            for factor in (1.0, 1.3, 2.0):
                allowed = delta(null, (1 - rate) * null + rate * moved, factor)
                worst = max(worst, delta(whole, without, factor) - allowed)
    return worst


def test_no_tiny_federation_tells_more_than_a_subsampled_gaussian():
    assert excess(kept=0) < 1e-9


def test_keeping_a_part_of_a_batch_that_is_too_large_would():
    """A planted mistake: a record that is drawn then pushes another one out."""
    assert excess(kept=2) > 1e-3
