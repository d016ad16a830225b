"""Poisson batches: which steps an upload is made of, and what one step hides."""

import itertools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import published
from scipy import stats

from fedsvp_jax.algorithm import local_training
from fedsvp_jax.algorithm.local_training import TrainingRecipe
from fedsvp_jax.mechanisms import make_mechanism, subsampling

POISSON = {
    "sensitivity": "per_example",
    "relation": "add_remove",
    "batches": "poisson",
    "min_num_examples": 2000.0,
    "max_num_examples": 2000,
}


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
    draw = jax.jit(
        jax.vmap(
            lambda key: local_training.poisson_batch(
                key, member, batch_size=5, places=9
            )
        )
    )
    position, taken = draw(jax.random.split(jax.random.key(0), 5_000))
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


Rule = Callable[[tuple[int, ...], int], tuple[int, ...]]


def all_or_nothing(batch: tuple[int, ...], places: int) -> tuple[int, ...]:
    return batch if len(batch) <= places else ()


def first_ones(batch: tuple[int, ...], places: int) -> tuple[int, ...]:
    return batch[:places]


def outcome(
    gradients: Sequence[float], rule: Rule, rate: float, places: int, at: np.ndarray
) -> np.ndarray:
    """Density at `at` of a step's sum with noise N(0, 1), over all batches."""
    density = np.zeros_like(at)
    for chosen in itertools.product((0, 1), repeat=len(gradients)):
        batch = tuple(np.flatnonzero(chosen).tolist())
        chance = math.prod(rate if taken else 1 - rate for taken in chosen)
        total = sum(gradients[row] for row in rule(batch, places))
        density += chance * stats.norm.pdf(at, loc=total)
    return density


def excess(rule: Rule) -> float:
    """The largest delta over what a subsampled Gaussian has, over tiny federations.

    Four records with gradients of length 1 at most; any one of them is left out: its
    gradient is 0, while it is drawn and counted as before. M = 2, so many batches
    overflow. Both directions, exact up to the grid.
    """
    at = np.linspace(-12, 12, 4801)
    width = at[1] - at[0]
    worst = -1.0
    for rate in (0.2, 0.6):
        null, moved = stats.norm.pdf(at), stats.norm.pdf(at, loc=1)
        pair = (null, (1 - rate) * null + rate * moved)
        for gradients in itertools.product((-1.0, 0.0, 1.0), repeat=4):
            whole = outcome(gradients, rule, rate, 2, at)
            for record in range(4):
                if gradients[record] == 0:
                    continue
                left = list(gradients)
                left[record] = 0.0
                without = outcome(left, rule, rate, 2, at)
                for factor in (1.0, 1.3, 2.0):

                    def delta(p, q, factor=factor):
                        return np.maximum(p - factor * q, 0).sum() * width

                    allowed = max(delta(*pair), delta(*pair[::-1]))
                    found = max(delta(whole, without), delta(without, whole))
                    worst = max(worst, found - allowed)
    return worst


def test_no_tiny_federation_tells_more_than_a_subsampled_gaussian():
    assert excess(all_or_nothing) < 1e-9


def test_keeping_a_part_of_a_batch_that_is_too_large_would():
    """A planted mistake: a record that is drawn then pushes another one out."""
    assert excess(first_ones) > 1e-3
