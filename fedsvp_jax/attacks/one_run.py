"""Auditing with one training run: a bound of ε from guesses about many canaries.

A coin decides for each of m canaries whether it takes part in the run. The adversary
guesses some of the coins: "in" for the canaries with the highest scores, "out" for
those with the lowest, and nothing for the others. If the run is (ε, δ)-differentially
private with respect to each canary, few of the guesses can be right.

Source: Steinke, Nasr and Jagielski 2023, Privacy Auditing with One (1) Training Run
(arXiv 2305.08846), Theorem 5.2 and Algorithm 1. jax-privacy's `epsilon_one_run` only
guesses "in", which wastes half of the canaries.
"""

import math

import numpy as np

_SHARES = (0.125, 0.25, 0.5, 1.0)  # of the canaries, that are guessed


def guesses_p_value(
    right: int, guesses: int, canaries: int, epsilon: float, delta: float
) -> float:
    """The most likely it is that `right` or more guesses are right.

        f(v) + 2mδ·max_{1 ≤ i ≤ v} (f(v − i) − f(v))/i,  f(v) = P[B ≥ v]

    B is binomial with r trials of probability e^ε/(1 + e^ε).

    Args:
      right: v. guesses: r. canaries: m. epsilon, delta: of the claim.

    Raises:
      ValueError: not 0 <= right <= guesses <= canaries.
    """
    import scipy.stats

    if not 0 <= right <= guesses <= canaries:
        raise ValueError(
            "right must be at most guesses, and guesses at most canaries, got "
            f"{right}, {guesses}, {canaries}"
        )
    if right == 0 or math.isinf(epsilon):
        return 1.0
    chance = 1.0 / (1.0 + math.exp(-epsilon))
    fewer = np.arange(1, right + 1)
    base = float(scipy.stats.binom.sf(right - 1, guesses, chance))
    gains = scipy.stats.binom.sf(right - fewer - 1, guesses, chance) - base
    slope = float(np.max(gains / fewer))
    return min(1.0, base + 2.0 * canaries * delta * slope)


def p_value(
    inside: np.ndarray, outside: np.ndarray, *, epsilon: float, delta: float
) -> float:
    """A p-value of the hypothesis that the run is (ε, δ)-differentially private.

    An eighth, a quarter, a half and all of the coins are guessed. The smallest of the
    four p-values counts four times (Bonferroni).

    Args:
      inside, outside: scores of the canaries that were in and of those that were out.
      epsilon, delta: of the claim.
    """
    scores = np.concatenate([inside, outside])
    was_in = np.arange(len(scores)) < len(inside)
    coins = was_in[np.argsort(scores, kind="stable")]
    least = 1.0
    for share in _SHARES:
        each = int(share * len(coins)) // 2
        if each:
            right = int(np.sum(coins[-each:]) + np.sum(~coins[:each]))
            p = guesses_p_value(right, 2 * each, len(coins), epsilon, delta)
            least = min(least, p)
    return min(1.0, len(_SHARES) * least)


def lower_bound(inside: np.ndarray, outside: np.ndarray, *, delta: float) -> float:
    """The largest ε, to 1e-3, that `p_value` contradicts at 5 %; 0 if there is none."""
    low, high = 0.0, 64.0

    def contradicted(epsilon: float) -> bool:
        p = p_value(inside, outside, epsilon=epsilon, delta=delta)
        return p <= 0.05

    if not contradicted(low):
        return 0.0
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if contradicted(middle) else (low, middle)
    return low
