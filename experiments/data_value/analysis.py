"""The registered rules: gains at equal TPR and at equal epsilon, and their verdicts."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fedsvp_jax.student import holm

from ..decisive import verdicts
from .registered import (
    DATASETS,
    DELTA,
    FEDERATIONS,
    LEAST_AREA,
    LEAST_RELIABILITY,
    LEDGERS,
    NOISES,
    QUESTIONS,
    REFERENCE,
    STEPS,
    WORTH,
    Hypothesis,
)

Row = dict[str, Any]
Rows = dict[str, list[Row]]  # by data set
Verdict = Literal["yes", "no", "undecided", "void"]


def curve(row: Row, arm: str, outcome: str) -> np.ndarray:
    """(noises,) of one federation."""
    noises = row["arms"][arm]["noises"]
    return np.array([noises[f"{sigma:g}"][outcome] for sigma in NOISES])


def factors(row: Row, arm: str) -> tuple[np.ndarray, np.ndarray]:
    """The factors of an arm, and how many records have each."""
    counts = row["arms"][arm]["factors"]
    return np.array([*map(float, counts)]), np.array([*counts.values()], float)


def quantile() -> float:
    """The standard normal quantile of 1 - DELTA."""
    import scipy.stats

    return float(scipy.stats.norm.isf(DELTA))


def epsilon(factor: Any, sigma: float) -> Any:
    """epsilon of a record with a factor: p/2 + sqrt(p) q, p = STEPS (a/sigma)^2.

    An upper bound of the exact epsilon of STEPS Gaussians of multiplier sigma/a
    (`fedsvp_jax.mechanisms.calibration.gaussian_epsilon_bound`), elementwise.
    """
    root = np.sqrt(STEPS) * np.asarray(factor) / sigma
    return root**2 / 2 + root * quantile()


def interpolated(values: np.ndarray, at: np.ndarray, place: float) -> float:
    """Linear between the noises; beyond them the nearest line goes on.

    Args:
      values: (noises,) what is read off.
      at: (noises,) where, increasing or decreasing.
      place: where it is read off.
    """
    if at[0] > at[-1]:
        values, at = values[::-1], at[::-1]
    low = int(np.clip(np.searchsorted(at, place) - 1, 0, len(at) - 2))
    slope = (values[low + 1] - values[low]) / (at[low + 1] - at[low])
    return float(values[low] + slope * (place - at[low]))


def _at_equal_tpr(tpr: np.ndarray, accuracy: np.ndarray, wanted: float) -> float:
    """Accuracy where the mean curve's TPR is `wanted`; its TPR must fall with noise."""
    return interpolated(accuracy, np.minimum.accumulate(tpr), wanted)


def tpr_gains(rows: Sequence[Row], arm: str, against: str) -> np.ndarray:
    """(federations,) jackknife pseudo-values of the gain at equal TPR, in points.

    The TPR is that of uniform protection at the reference noise, in the mean of the
    federations; each arm's mean accuracy is read off where its mean TPR is the same.
    """
    place = NOISES.index(REFERENCE)
    curves = {
        (name, outcome): np.stack([curve(row, name, outcome) for row in rows])
        for name in {arm, against, "uniform"}
        for outcome in ("tpr", "accuracy")
    }

    def gain(chosen: np.ndarray) -> float:
        mean = {key: values[chosen].mean(0) for key, values in curves.items()}
        wanted = mean["uniform", "tpr"][place]
        ours, theirs = (
            _at_equal_tpr(mean[name, "tpr"], mean[name, "accuracy"], wanted)
            for name in (arm, against)
        )
        return 100 * (ours - theirs)

    everybody = np.ones(len(rows), bool)
    whole, count = gain(everybody), len(rows)
    left = [gain(np.arange(count) != out) for out in range(count)]
    return count * whole - (count - 1) * np.array(left)


def noise_of_ledger(row: Row, arm: str, release: float, ledger: str) -> float:
    """sigma at which an arm spends what uniform protection spends at the reference.

    worst   epsilon of the most exposed record, plus the release
    mean    the mean of the records' epsilon, plus the release
    """
    import scipy.optimize

    budget = float(epsilon(1.0, REFERENCE)) - release
    values, counts = factors(row, arm)
    if ledger == "equal worst epsilon":
        q = quantile()
        root = math.sqrt(q**2 + 2 * budget) - q
        return math.sqrt(STEPS) * float(values.max()) / root

    def excess(sigma: float) -> float:
        return float(np.average(epsilon(values, sigma), weights=counts)) - budget

    return float(scipy.optimize.brentq(excess, 0.1, 100.0))


def ledger_gains(
    rows: Sequence[Row], arm: str, against: str, release: float, ledger: str
) -> np.ndarray:
    """(federations,) gains in accuracy at equal epsilon, in points."""
    logs = np.log(NOISES)

    def accuracy(row: Row, name: str, price: float) -> float:
        sigma = noise_of_ledger(row, name, price, ledger)
        return interpolated(curve(row, name, "accuracy"), logs, math.log(sigma))

    return np.array(
        [
            100 * (accuracy(row, arm, release) - accuracy(row, against, 0.0))
            for row in rows
        ]
    )


def gains(rows: Sequence[Row], one: Hypothesis, ledger: str) -> list[np.ndarray]:
    """The gains against uniform protection and against the placebo."""
    rivals = ("uniform", one.placebo)
    if ledger == "equal TPR":
        return [tpr_gains(rows, one.arm, rival) for rival in rivals]
    return [ledger_gains(rows, one.arm, rival, one.release, ledger) for rival in rivals]


class Finding(NamedTuple):
    """A hypothesis on one data set under one ledger."""

    hypothesis: Hypothesis
    dataset: str
    ledger: str
    effects: tuple[verdicts.Effect, ...]  # against uniform, against the placebo
    verdict: Verdict


def area(rows: Sequence[Row]) -> float:
    """Of LiRA on private records without noise, in the mean of the federations."""
    return float(np.mean([row["no_noise"]["area"] for row in rows]))


def findings(rows: Rows, ledger: str) -> list[Finding]:
    """All hypotheses on all data sets under one ledger.

    yes        Holm rejects "it gains nothing against one of the two" at 5 %: p is the
               larger of the two one-sided p
    no         Holm rejects "it gains WORTH against both" at 5 %: p is twice the smaller
               of the two one-sided p; and the scores are reliable
    void       the area without noise is below LEAST_AREA

    A gain that is there and below WORTH is a no.

    Raises:
      ValueError: a registered row is missing: there is no verdict before.
    """
    for name in DATASETS:
        if {row["seed"] for row in rows[name]} != set(range(FEDERATIONS)):
            raise ValueError(
                f"{name} has {len(rows[name])} of {FEDERATIONS} registered rows: "
                "no verdict before all are there"
            )
    effects = [
        tuple(verdicts.effect(part, WORTH) for part in gains(rows[name], one, ledger))
        for one, name in QUESTIONS
    ]
    there = holm([max(part.p_yes for part in two) for two in effects])
    too_small = holm([min(1.0, 2 * min(part.p_no for part in two)) for two in effects])

    def verdict(place: int) -> Verdict:
        one, name = QUESTIONS[place]
        if area(rows[name]) < LEAST_AREA:
            return "void"
        if too_small[place]:
            return "no" if reliable(rows[name], one) else "undecided"
        return "yes" if there[place] else "undecided"

    return [
        Finding(*pair, ledger, effects[place], verdict(place))
        for place, pair in enumerate(QUESTIONS)
    ]


def reliable(rows: Sequence[Row], one: Hypothesis) -> bool:
    """Whether the scores that the arm ranks by repeat well enough for a no."""
    if one.reliability is None:
        return True
    return float(np.mean([row[one.reliability] for row in rows])) >= LEAST_RELIABILITY


def headline(found: dict[str, list[Finding]]) -> str:
    """The answer in words, by the registered rule.

    Args:
      found: `findings` of every ledger in LEDGERS.
    """
    first = found["equal TPR"]
    if all(one.verdict == "void" for one in first):
        return "**Void.** The attack sees too little without noise."

    def named(wanted: Callable[[int, Finding], bool]) -> str:
        chosen = [
            f"{one.hypothesis.name} on {one.dataset}"
            for place, one in enumerate(first)
            if wanted(place, one)
        ]
        return ", ".join(chosen) or "none"

    def paid(place: int, one: Finding) -> bool:
        worst = found["equal worst epsilon"][place]
        return one.hypothesis.proved and {one.verdict, worst.verdict} == {"yes"}

    return (
        f"Gains at equal risk, release paid and at equal worst epsilon: {named(paid)}. "
        f"Gains at equal risk: {named(lambda _, one: one.verdict == 'yes')}. "
        f"No gain worth having: {named(lambda _, one: one.verdict == 'no')}. "
        f"Undecided: {named(lambda _, one: one.verdict == 'undecided')}. "
        f"Void: {named(lambda _, one: one.verdict == 'void')}."
    )


def all_findings(rows: Rows) -> dict[str, list[Finding]]:
    """Ledger -> findings. Errors: `findings`."""
    return {ledger: findings(rows, ledger) for ledger in LEDGERS}
