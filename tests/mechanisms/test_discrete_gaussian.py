"""The exact sampler, rounding within a norm, modular sums, and the accounting."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fedsvp_jax.mechanisms import discrete_gaussian as dg


def probabilities(variance: float, largest: int) -> np.ndarray:
    """Of −largest, …, largest, from the definition."""
    x = np.arange(-largest, largest + 1)
    weight = np.exp(-(x**2) / (2 * variance))
    return weight / weight.sum()


@pytest.mark.parametrize(
    "variance",
    [Fraction(1, 50), Fraction(1, 3), 1, Fraction(5, 2), Fraction(113, 7), 400],
)
def test_the_sampler_draws_from_the_exact_probabilities(variance):
    number, largest = 60_000, 12 + 8 * math.ceil(float(variance) ** 0.5)
    drawn = dg.discrete_gaussian(variance, number, dg.seeded_words(7))
    expected = number * probabilities(float(variance), largest)
    counts = np.bincount(drawn + largest, minlength=len(expected))
    assert len(counts) == len(expected)
    rare = expected < 10
    observed = np.append(counts[~rare], counts[rare].sum())
    predicted = np.append(expected[~rare], expected[rare].sum())
    test = stats.chisquare(observed, predicted * number / predicted.sum())
    assert test.pvalue > 0.01


@pytest.mark.parametrize("variance", [10**6 + 1, 2**40 + 12345, dg.LARGEST_VARIANCE])
def test_wide_noise_has_a_gaussians_moments_and_tail(variance):
    drawn = dg.discrete_gaussian(variance, 60_000, dg.seeded_words(11))
    unit = drawn / math.sqrt(variance)
    assert stats.kstest(unit, "norm").pvalue > 0.01
    assert np.mean(unit**4) == pytest.approx(3, abs=0.15)
    assert len(np.unique(drawn % 2)) == 2  # every residue, not a coarser grid


def test_a_seed_decides_every_number_and_entropy_does_not_repeat():
    one = dg.discrete_gaussian(10**4, 1000, dg.seeded_words(3, 4))
    same = dg.discrete_gaussian(10**4, 1000, dg.seeded_words(3, 4))
    other = dg.discrete_gaussian(10**4, 1000, dg.seeded_words(4, 3))
    np.testing.assert_array_equal(one, same)
    assert np.mean(one == other) < 0.05
    secret = [dg.discrete_gaussian(10**4, 1000, dg.system_words) for _ in range(2)]
    assert np.mean(secret[0] == secret[1]) < 0.05
    assert one[:4].tolist() == [111, 163, 115, 28]


def test_words_past_the_last_multiple_are_drawn_again():
    bound = 2**63 + 1  # half of all words lie past it
    supply = iter(range(100))

    def words(number):
        low = [next(supply) for _ in range(number)]
        return np.asarray([2**64 - 1 - w if w % 2 else w for w in low], np.uint64)

    drawn = dg._below(bound, 6, words)
    assert drawn.max() < bound
    assert all(int(w) % 2 == 0 for w in drawn)


def test_numbers_out_of_range_are_refused():
    spoilt, words = np.asarray([1.0, np.nan]), dg.seeded_words(0)
    for bad in (0, -1, 2**55, Fraction(1, 2**54)):
        with pytest.raises(ValueError, match="variance must be"):
            dg.discrete_gaussian(bad, 1, words)
    with pytest.raises(ValueError, match="values must be finite"):
        dg.rounded(spoilt, step=0.1, norm_bound=1.0, words=words)


def test_the_variance_covers_the_rounding_of_the_claimed_product():
    """σ = z·Δ/√K is a float32 product; z, as the ledger reads it, is exact."""
    rounded_down = 0
    for step, number in itertools.product((1.0, 2.0**-10, 2.0**-20), range(1, 200)):
        z, clip = np.float32(0.01 * number), np.float32(1 + number / 7)
        share = z / np.float32(np.sqrt(np.float32(10)))
        std = share * clip
        needed = (Fraction(float(z)) * Fraction(float(clip)) / Fraction(step)) ** 2 / 10
        exact = (Fraction(float(std)) / Fraction(step)) ** 2
        rounded_down += exact < needed
        variance = dg.step_variance(float(std), step)
        least, most = needed + 9, exact + 9 + max(exact, 1) * Fraction(3, 10**6)
        assert least <= variance <= most
        dg.discrete_gaussian(variance, 1, dg.seeded_words(0))
    assert rounded_down > 150


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("step", [0.5, 0.03, 1e-4])
def test_rounding_never_makes_a_vector_longer_than_its_clip(seed, step):
    generator = np.random.default_rng(seed)
    values = generator.standard_t(2, size=500)
    values *= (0.2, 0.99, 1.0, 1.0 + 1e-7, 50.0)[seed] / np.linalg.norm(values)
    whole = dg.rounded(values, step=step, norm_bound=1.0, words=dg.seeded_words(seed))
    squares = sum(int(w) ** 2 for w in whole)
    assert squares * Fraction(step) ** 2 <= 1
    shrunk = values * min(1.0, 1 / np.linalg.norm(values))
    assert np.max(np.abs(whole * step - shrunk)) <= 2 * step


def test_rounding_is_right_on_average_and_keeps_what_is_on_the_grid():
    values = np.tile([0.23, -0.71, 0.5, 0.0], 5000) / 100
    whole = dg.rounded(values, step=0.01, norm_bound=9.0, words=dg.seeded_words(5))
    means = whole.reshape(-1, 4).mean(axis=0)
    np.testing.assert_allclose(means, [0.23, -0.71, 0.5, 0.0], atol=0.02)
    grid = np.asarray([3.0, -4.0, 0.0]) * 0.25
    kept = dg.rounded(grid, step=0.25, norm_bound=1.25, words=dg.seeded_words(5))
    assert kept.tolist() == [3, -4, 0]


def test_sums_of_residues_wrap_around_to_the_sum():
    generator = np.random.default_rng(0)
    whole = generator.integers(-(10**6), 10**6, size=(50, 200))
    whole[-1] -= whole.sum(axis=0)  # parts far outside, a sum of at most 100 inside
    whole[-1] += generator.integers(-100, 100, size=200)
    total = (whole % 256).astype(np.uint8).sum(axis=0, dtype=np.uint32)
    np.testing.assert_array_equal(dg.wrapped(total, 8), whole.sum(axis=0))
    edge = np.asarray([-128, 127, 128])
    assert dg.wrapped(edge, 8).tolist() == [-128, 127, -128]


def told_apart(mu: float, epsilon: float) -> float:
    """δ at ε of a Gaussian that neighbours move by μ (Balle and Wang 2018)."""
    far = math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    return float(stats.norm.cdf(mu / 2 - epsilon / mu) - far)


def of_noise(std: float, variance: float) -> np.ndarray:
    """`probabilities` out to 11 standard deviations of the noise in place of std."""
    return probabilities(variance, math.ceil(11 * math.hypot(std, 3)))


def excess(masses: list[np.ndarray], shift: tuple[int, ...], mu: float) -> float:
    """The most by which a δ(ε) of noise that is moved exceeds a Gaussian's of μ.

    Args:
      masses: of each coordinate's noise.
      shift: whole steps by which neighbours move each coordinate.
    """
    there, moved = np.ones(1), np.ones(1)
    for mass, steps in zip(masses, shift, strict=True):
        zeros = np.zeros(steps)
        there = np.outer(there, np.concatenate([mass, zeros])).ravel()
        moved = np.outer(moved, np.concatenate([zeros, mass])).ravel()
    return max(
        float(np.maximum(one - math.exp(epsilon) * other, 0).sum())
        - told_apart(mu, epsilon)
        for epsilon in np.linspace(0, 3, 16)
        for one, other in ((there, moved), (moved, there))
    )


@pytest.mark.parametrize("std", [0.3, 1.0, 3.5, 10.0, 100.0])
def test_by_summation_discrete_noise_hides_no_less_than_gaussian_noise(std):
    """A number's, a vector's and a sum's of several clients; with less, some δ is more.

    A vector moves by its norm.
    """
    variance, bare = float(dg.step_variance(std, 1.0)), []
    noise = of_noise(std, variance)
    for steps in (1, 2, round(std) + 1, round(3 * std) + 1):
        assert excess([noise], (steps,), steps / std) < 1e-13
        bare.append(excess([of_noise(std, std**2)], (steps,), steps / std))
        for clients in (2, 3):
            total = functools.reduce(np.convolve, [noise] * clients)
            assert excess([total], (steps,), steps / (std * clients**0.5)) < 1e-13
    assert max(bare) > 1e-7
    for shift in ((1, 1), (3, 4), (2, 0, 1)) if std < 10 else ():
        axes = [noise] * len(shift)
        assert excess(axes, shift, math.hypot(*shift) / std) < 1e-13


@pytest.mark.parametrize("std", [0.5, 3.0, 6.0])
@pytest.mark.parametrize("most", [1, 4])
def test_by_enumeration_rounds_that_follow_each_other_are_one_gaussian(std, most):
    """What moves in the second round is the worst for whatever the first one told."""
    noise = of_noise(std, float(dg.step_variance(std, 1.0)))
    pairs = []
    for steps in range(most + 1):
        zeros = np.zeros(steps)
        pairs.append((np.concatenate([noise, zeros]), np.concatenate([zeros, noise])))
    mu = most * 2**0.5 / std
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        for one, other in pairs:
            second = np.max(
                [
                    np.maximum(
                        one[:, None] * there - math.exp(epsilon) * other[:, None] * far,
                        0,
                    ).sum(axis=1)
                    for there, far in pairs
                ],
                axis=0,
            )
            assert second.sum() <= told_apart(mu, epsilon) + 1e-13


def divergence(mass: np.ndarray, shift: int, order: float) -> float:
    """Rényi divergence of a distribution on ℤ and itself, `shift` further on."""
    room = np.zeros(shift)
    p, q = np.concatenate([mass, room]), np.concatenate([room, mass])
    both = (p > 0) & (q > 0)
    logs = order * np.log(p[both]) + (1 - order) * np.log(q[both])
    return float(np.logaddexp.reduce(logs)) / (order - 1)


def sum_distance(variance: float, number: int) -> float:
    """τ, how far the log probabilities of a sum of n are from one of variance nσ².

    Source: Kairouz, Liu and Steinke 2021, Theorem 1, for σ >= 1/2.
    """
    share = np.arange(1, number) / np.arange(2, number + 1)
    return float(10 * np.sum(np.exp(-2 * math.pi**2 * variance * share)))


@pytest.mark.parametrize("variance", [0.25, 0.4, 1.0, 3.0])
@pytest.mark.parametrize("number", [1, 2, 5])
def test_the_claim_is_above_the_divergence_computed_from_the_probabilities(
    variance, number
):
    one = probabilities(variance, 30)
    mass = one
    for _ in range(number - 1):
        mass = np.convolve(mass, one)
    for shift in (1, 2, 3):
        # Canonne et al. 2020, Theorem 4 (n = 1); Kairouz et al. 2021, Proposition 14.
        inverse = shift / math.sqrt(number * variance) + sum_distance(variance, number)
        for order in (1.1, 2.0, 4.0):
            bound = order / 2 * inverse**2
            assert divergence(mass, shift, order) <= bound * (1 + 1e-9)
