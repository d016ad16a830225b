"""ε by PLD against arithmetic of other kinds: never below, and close from above."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as library
from exact_deltas import Unresolved, by_inversion, by_sampling, of_one
from scipy import special, stats

from fedsvp_jax.accounting import composed_epsilon, losses
from fedsvp_jax.mechanisms.subsampling import SampledSteps

TIGHT = 1.05  # how many times the exact ε at most
FEW = 64  # steps that are sampled where the inversion would take long
CERTAIN = 1e-9  # δ from which dp-accounting's FFT has digits


def pld(z: float, q: float, n: int, delta: float) -> float:
    return composed_epsilon("pld", 0.0, delta, steps=SampledSteps(z, q, n))


def drawn(seed: int) -> tuple[float, float, int, float]:
    """z from .2 to 100, q from 1e-6 to 1, 1 to 10^6 steps and δ from 1e-15 to .1."""
    rng = np.random.default_rng(seed)
    logs = rng.uniform(np.log([0.2, 1e-6, 1, 1e-15]), np.log([100, 1, 1e6, 0.1]))
    z, q, n, delta = np.exp(logs).tolist()
    return z, q, int(n), delta


def deltas(z: float, q: float, n: int, epsilon: float, near: float) -> list:
    """[(δ, its standard error)], for a record that is removed and one that is added."""
    orders = (False, True)
    if n == 1:
        return [(of_one(z, q, epsilon, added), 0.0) for added in orders]
    try:
        if n > 8:
            return [
                (by_inversion(z, q, n, epsilon, near, added), 0.0) for added in orders
            ]
    except Unresolved:
        if n > FEW:
            raise
    return [by_sampling(z, q, n, epsilon, added) for added in orders]


def agrees(seed: int) -> bool:
    """Compares one ε; False where only dp-accounting could be asked, or nothing."""
    z, q, n, delta = drawn(seed)
    epsilon = pld(z, q, n, delta)
    try:
        exact = deltas(z, q, n, epsilon, delta)
        assert max(one - 5 * error for one, error in exact) <= delta * (1 + 1e-6)
        if epsilon > 0:
            below = deltas(z, q, n, epsilon / TIGHT, delta)
            assert max(one + 5 * error for one, error in below) > delta
    except Unresolved:
        if delta > CERTAIN and epsilon > 0:
            interval = max(epsilon / 1000, 1e-6)
            theirs = library.from_gaussian_mechanism(
                z, value_discretization_interval=interval, sampling_prob=q
            ).self_compose(n)
            assert epsilon <= TIGHT * theirs.get_epsilon_for_delta(delta)
        return False
    return True


QUICK = range(12)


@pytest.mark.filterwarnings(
    "ignore:overflow|divide by zero|invalid value:RuntimeWarning"
)
def test_drawn_epsilons_are_exact_from_above() -> None:
    assert sum(map(agrees, QUICK)) >= 0.7 * len(QUICK)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:overflow|divide by zero|invalid value:RuntimeWarning"
)
@pytest.mark.parametrize("first", range(0, 300, 30))
def test_three_hundred_drawn_epsilons_are_exact_from_above(first: int) -> None:
    assert sum(map(agrees, range(first, first + 30))) >= 0.7 * 30


@pytest.mark.hole
@pytest.mark.parametrize(
    ("z", "q", "n", "delta", "exact"),
    [
        (3.0, 0.005, 50_000, 1e-12, 2.62113),  # 2.60924
        (0.35, 0.01, 1_000, 1e-5, 42.7713),  # 310.9
        (4.0, 0.0004, 10_000, 1e-15, 0.0726428),  # inf
        (20.0, 0.001, 10_000, 1e-5, 0.01253110),  # 0.01668
    ],
)
def test_epsilons_are_those_of_an_inversion(
    z: float, q: float, n: int, delta: float, exact: float
) -> None:
    """What was printed stands beside: below by rounding, or far above."""
    found = pld(z, q, n, delta)
    assert by_inversion(z, q, n, exact, delta, False) == pytest.approx(delta, rel=1e-3)
    assert exact * (1 - 1e-5) <= found <= exact * (1 + 1e-3)


@pytest.mark.hole
def test_epsilon_falls_with_delta_and_noise_without_leaps() -> None:
    """At small δ ε stood still, fell and was infinite; at small z it leapt to RDP's."""
    by_delta = [pld(1.0, 0.01, 1_000, 10.0**-k) for k in range(1, 19)]
    assert np.all(np.diff(by_delta) > 0) and by_delta[-1] < 8
    by_noise = [pld(z, 0.01, 1_000, 1e-5) for z in np.geomspace(0.2, 2.0, 30)]
    falls = np.diff(np.log(by_noise))
    assert np.all(falls < 0) and np.all(falls > -0.4)


@pytest.mark.parametrize("delta", [1e-15, 1e-9, 1e-5, 0.1])
def test_gaussians_alone_are_exact_also_as_steps(delta: float) -> None:
    """Of precision p, δ(ε) = Φ(√p/2 − ε/√p) − e^ε·Φ(−√p/2 − ε/√p)."""
    for precision in (1e-4, 0.3, 25.0):
        root = math.sqrt(precision)
        found = composed_epsilon("pld", precision, delta)
        left, right = root / 2 - found / root, -root / 2 - found / root
        exact = special.ndtr(left) - math.exp(found + special.log_ndtr(right))
        assert exact <= delta * (1 + 1e-9)
        if found > 0:
            assert exact == pytest.approx(delta, rel=1e-6)
        nearly = pld(7 / root, 1 - 1e-12, 49, delta)
        assert found * (1 - 1e-9) <= nearly <= found * 1.0005 + 1e-9


def of_responses(epsilon: float, told: float, count: int, precision: float) -> float:
    """δ(ε) of so many randomised responses, after a Gaussian where there is one."""
    ones = np.arange(count + 1)
    p = 1 / (1 + math.exp(-told))
    left = epsilon - (2 * ones - count) * told
    if precision == 0:
        alone = np.maximum(-np.expm1(np.minimum(left, 0)), 0)
    else:
        root = math.sqrt(precision)
        alone = special.ndtr(root / 2 - left / root) - np.exp(
            left + special.log_ndtr(-root / 2 - left / root)
        )
    return float(stats.binom.pmf(ones, count, p) @ alone)


@pytest.mark.parametrize("precision", [0.0, 0.04, 4.0])
@pytest.mark.parametrize(
    ("told", "count"), [(0.1, 40), (1.0, 1), (0.01, 3_000), (2.0, 12)]
)
def test_responses_are_exact_from_above(
    told: float, count: int, precision: float
) -> None:
    for delta in (1e-14, 1e-5, 0.05):
        found = composed_epsilon("pld", precision, delta, responses=[(count, told)])
        exact = of_responses(found, told, count, precision)
        assert exact <= delta * (1 + 1e-6) + 1e-16
        below = of_responses(found / 1.001, told, count, precision)
        assert found == 0 or below > delta * (1 - 1e-9)


@pytest.mark.parametrize("added", [False, True])
def test_each_order_of_the_neighbours_is_exact_from_above(added: bool) -> None:
    """To remove a record shows more than to add one."""
    z, q, n, delta = 2.0, 0.02, 3_000, 1e-9
    found = losses._epsilon([losses.Gaussians(z, q, n)], delta, added, 0.0)
    assert by_inversion(z, q, n, found, delta, added) <= delta
    assert by_inversion(z, q, n, found / 1.0002, delta, added) > delta
    assert found < pld(z, q, n, delta) * (0.95 if added else 1.0001)


def test_rare_large_losses_do_not_coarsen_the_grid() -> None:
    """2**24 points, in the place of 2**20 and 2**22, give .009794."""
    assert 0.00979 < pld(0.6, 1e-6, 10**6, 1e-5) < 0.00979 * TIGHT


def test_of_everything_together_it_is_dp_accountings() -> None:
    """At a δ at which dp-accounting's FFT has digits."""
    z, q, n, delta = 1.2, 0.02, 500, 1e-6
    parts = [
        library.from_gaussian_mechanism(z, sampling_prob=q).self_compose(n),
        library.from_gaussian_mechanism(3.0),
        library.from_randomized_response(2 / (1 + math.exp(0.1)), 2).self_compose(20),
    ]
    theirs = parts[0].compose(parts[1]).compose(parts[2]).get_epsilon_for_delta(delta)
    found = composed_epsilon(
        "pld", 1 / 9, delta, responses=[(20, 0.1)], steps=SampledSteps(z, q, n)
    )
    assert found == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("z", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("q", [1e-5, 0.01, 0.6])
def test_divergences_are_the_binomial_sums_of_whole_orders(z: float, q: float) -> None:
    """Between them the logarithm of a moment is convex."""
    part = losses.Gaussians(z, q, 1)
    for order in (2, 3, 8, 40):
        k = np.arange(order + 1)
        terms = stats.binom.logpmf(k, order, q) + k * (k - 1) / (2 * z * z)
        exact = special.logsumexp(terms)
        found = part.divergence(order) * (order - 1)
        assert found == pytest.approx(exact, rel=1e-9, abs=1e-14)
        half = part.divergence(order + 0.5) * (order - 0.5)
        assert found <= half <= (found + part.divergence(order + 1) * order) / 2


@pytest.mark.hole
@pytest.mark.parametrize("z", [0.266, 1.0, 20.0])
@pytest.mark.parametrize("q", [1e-12, 1e-9, 1e-7, 1e-5, 0.01, 0.999])
def test_divergences_keep_their_digits_at_tiny_rates(z: float, q: float) -> None:
    """They were short by .4 % at q = 1e-9. The terms of this sum are all positive."""
    for order in (2, 3, 5):
        moment = math.fsum(
            math.comb(order, k)
            * q**k
            * (1 - q) ** (order - k)
            * math.expm1(k * (k - 1) / (2 * z * z))
            for k in range(2, order + 1)
        )
        found = losses.Gaussians(z, q, 1).divergence(order) * (order - 1)
        assert found == pytest.approx(math.log1p(moment), rel=1e-10, abs=0)
