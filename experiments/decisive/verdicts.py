"""The registered rules: an effect, its interval, and yes, no or undecided."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedsvp_jax import student
from fedsvp_jax.student import holm

Verdict = Literal["yes", "no", "undecided"]
LEVEL = 0.05  # of the family of all hypotheses, once for yes and once for no
LEAST_RELIABILITY = 0.7  # below it, a correlation near 0 says nothing


class Effect(NamedTuple):
    """A mean over pairs or pools, with what the tests say."""

    num_values: int
    mean: float
    low: float  # 95 % interval of the mean, Student's t
    high: float
    p_yes: float  # one-sided, of "the effect is 0 or less"
    p_no: float  # one-sided, of "the effect is `worth` or more"


def effect(values: Sequence[float] | np.ndarray, worth: float) -> Effect:
    """The mean of independent values and its one-sided t tests.

    Args:
      values: two or more, one for each pair of runs or each pool.
      worth: the smallest effect of interest, > 0.

    Raises:
      ValueError: fewer than two values, or worth is not positive.
    """
    if len(values) < 2 or worth <= 0:
        raise ValueError(
            "an effect needs two or more values and worth > 0, got "
            f"{len(values)} and {worth}"
        )
    numbers = np.asarray(values, np.float64)
    mean = float(numbers.mean())
    if np.ptp(numbers) == 0:  # equal in every pair: scipy's p would be nan
        p_yes, p_no = float(mean <= 0), float(mean >= worth)
        return Effect(len(numbers), mean, mean, mean, p_yes, p_no)
    import scipy.stats

    above = scipy.stats.ttest_1samp(numbers, 0.0, alternative="greater")
    below = scipy.stats.ttest_1samp(numbers, worth, alternative="less")
    low, high = student.interval(numbers)
    return Effect(
        num_values=len(numbers),
        mean=mean,
        low=low,
        high=high,
        p_yes=float(above.pvalue),
        p_no=float(below.pvalue),
    )


def verdicts(
    effects: Sequence[Effect], *, reliable: Sequence[bool] | None = None
) -> list[Verdict]:
    """The verdict of each hypothesis of the family.

    no         Holm rejects "the effect is `worth` or more" among all p_no
    yes        Holm rejects "the effect is 0 or less" among all p_yes, and it is not no
    undecided  neither

    An effect that is above 0 and below `worth` is a no: it is there, and too small to
    be worth anything.

    Args:
      effects: of all hypotheses.
      reliable: whether a hypothesis' measurements repeat well enough for a no, since
        noise in them pulls a correlation to 0. By default, all do.
    """
    reliable = reliable or [True] * len(effects)
    there = holm([one.p_yes for one in effects], LEVEL)
    too_small = holm([one.p_no for one in effects], LEVEL)

    def verdict(place: int) -> Verdict:
        if too_small[place]:
            return "no" if reliable[place] else "undecided"
        return "yes" if there[place] else "undecided"

    return [verdict(place) for place in range(len(effects))]
