"""Means over seeds with their 95 % intervals, and differences that are paired by seed.

A seed fixes the partition, the first weights, the cohorts and the random numbers of the
noise, so the difference of two runs with one seed varies less than either run. One seed
has no interval: how much another seed would change is not known then.
"""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from fedsvp_jax import student

from .results import Result


class Estimate(NamedTuple):
    """A mean over seeds in percent or points, with Student's t interval."""

    value: float
    interval: tuple[float, float] | None  # None with one seed
    num_seeds: int

    def text(self, unit: str, form: str = ".1f") -> str:
        """`0.9 points (95 % interval 0.1 to 1.7, 3 seeds)`."""
        value = f"{_number(self.value, form)} {unit}"
        if self.interval is None:
            return f"{value} (1 seed, no interval)"
        low, high = (_number(limit, form) for limit in self.interval)
        return f"{value} (95 % interval {low} to {high}, {self.num_seeds} seeds)"

    def cell(self) -> str:
        """`63.20 [62.81, 63.59]`, as a table shows it; one seed alone is `63.20`."""
        if self.interval is None:
            return f"{self.value:.2f}"
        low, high = self.interval
        return f"{self.value:.2f} [{_number(low, '.2f')}, {_number(high, '.2f')}]"


def _number(value: float, form: str) -> str:
    """With a minus sign; what rounds to 0 has no sign."""
    text = format(value, form)
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", "−")


def of_seeds(shares: Sequence[float | None]) -> Estimate | None:
    """The mean of one number per seed, in percent; None without a number."""
    values = [100 * share for share in shares if share is not None]
    if not values:
        return None
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Estimate(mean, None, 1)
    return Estimate(mean, student.interval(values), len(values))


def gap(first: Result | None, second: Result | None) -> Estimate | None:
    """Accuracy of `first` less that of `second`, in points, over their common seeds.

    Both are groups of a result. None without one of them, or without a common seed.
    """
    if first is None or second is None:
        return None
    seeds = common_seeds(first, second)
    return paired(*(last5(group, seeds) for group in (first, second)))


def paired(a: Sequence[float], b: Sequence[float]) -> Estimate | None:
    """a − b in points; the i-th numbers of both belong to one seed."""
    return of_seeds([one - other for one, other in zip(a, b, strict=True)])


def common_seeds(*groups: Result) -> list[int]:
    """The seeds for which every group has an accuracy, ascending."""
    measured = [
        {
            seed
            for seed, value in zip(group["seeds"], group["last5"], strict=True)
            if value is not None
        }
        for group in groups
    ]
    return sorted(set.intersection(*measured))


def last5(group: Result, seeds: Sequence[int]) -> list[float]:
    """The accuracies of the last five rounds, in the order of these seeds."""
    by_seed = dict(zip(group["seeds"], group["last5"], strict=True))
    return [by_seed[seed] for seed in seeds]


def share(group: Result | None, fedavg: Result | None) -> float | None:
    """The group's accuracy divided by FedAvg's, both over their common seeds."""
    if group is None or fedavg is None:
        return None
    seeds = common_seeds(group, fedavg)
    if not seeds:
        return None
    whole = statistics.fmean(last5(fedavg, seeds))
    return statistics.fmean(last5(group, seeds)) / whole if whole else None
