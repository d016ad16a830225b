"""ε by PLD against arithmetic that shares no code: never below, and close from above."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as library
from exact_deltas import Unresolved, by_inversion, by_sampling, of_one
from scipy import special, stats

from fedsvp_jax.accounting import composed_epsilon
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
        if delta > CERTAIN:
            at = epsilon / 1000
            pair = [
                library.from_gaussian_mechanism(
                    z,
                    value_discretization_interval=at,
                    sampling_prob=q,
                    pessimistic_estimate=pessimistic,
                ).self_compose(n)
                for pessimistic in (False, True)
            ]
            low, high = (one.get_epsilon_for_delta(delta) for one in pair)
            assert low <= epsilon <= TIGHT * high
        return False
    return True


QUICK = (0, 1, 5, 7, 8, 9, 12, 16, 22, 26, 28, 35, 42, 43, 50, 53, 58, 60, 61, 63)


@pytest.mark.filterwarnings("ignore:overflow|divide by zero|invalid value:RuntimeWarning")
def test_drawn_epsilons_are_exact_from_above() -> None:
    assert sum(map(agrees, QUICK)) >= 0.8 * len(QUICK)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow|divide by zero|invalid value:RuntimeWarning")
@pytest.mark.parametrize("first", range(0, 300, 30))
def test_three_hundred_drawn_epsilons_are_exact_from_above(first: int) -> None:
    assert sum(map(agrees, range(first, first + 30))) >= 0.7 * 30
