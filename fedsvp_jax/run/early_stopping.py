"""Ending a run before its last round: by a hook, or when rounds pass without a gain.

What stopping early means for claims: a number of rounds that the data decide was not
known before, so the ε of the rounds that were run is a tally (nominal). Patience and
hooks see what was released alone, models and what follows from them, so such a run is a
post-processing of the one that is planned and is claimed at its planned length
(`planned_rounds`). A hook that is also given numbers that no noise hides makes every
claim of the run nominal: when the run ends then tells of them.

What the end tells of the validation or test examples by which it was chosen no ε
counts: where these are rows of clients (`Dataset.public_test`), every page says so.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final


class _Stop:
    def __repr__(self) -> str:
        return "run.STOP"


# What a hook returns to end the run after the round that it was told of.
STOP: Final = _Stop()

# (round from 1, what was released of its row of metrics.jsonl and the model that was
# broadcast after it, read-only) -> STOP or None
Hook = Callable[[int, Mapping[str, Any]], object]

# Fields of a row that clients' private examples decide and no noise hides. Its other
# fields follow from the settings and from the released models, votes and R.
UNRELEASED = (
    "worst_tenth_accuracy",
    "noise_multiplier_mean",
    "noise_std_mean",
    "step_noise_std_mean",
    "noise_l2",
    "aggregate_noise_l2",
    "update_l2",
    "num_clipped_updates",
    "contribution_ratio_mean",
    "num_clipped_ratios",
    "num_degenerate_ratios",
    "steps_needed",
    "steps_run",
    "diverged_clients",
)


class _VisibleRow(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        why = (
            " is made of private data that no noise hides; run.Options(reveal="
            f"[{name!r}]) shows it, and every claim is nominal then"
        )
        raise KeyError(name + why if name in UNRELEASED else name)


def visible_row(
    row: Mapping[str, Any], reveal: Sequence[str] = ()
) -> Mapping[str, Any]:
    """The fields of a row that a hook may see: the released ones and `reveal`."""
    hidden = {*UNRELEASED} - {*reveal}
    return MappingProxyType(
        _VisibleRow((k, v) for k, v in row.items() if k not in hidden)
    )


# By the first of these that a row has a number for, rounds are compared. A data set
# with targets has no accuracy; of the losses the lowest is the best.
METRICS = ("validation_accuracy", "test_accuracy", "validation_loss", "test_loss")


class BestRound:
    """The best round so far, by the server's validation examples where rows tell it.

    Attributes:
      metric: of `METRICS`; None before the first evaluation.
      row: the first with the largest accuracy or the lowest loss; {} before it.
      last: the newest round.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.metric: str | None = None
        self.row: Mapping[str, Any] = {}
        self.last = 0
        for row in rows:
            self.note(row)

    def note(self, row: Mapping[str, Any]) -> bool:
        """Takes a row of metrics.jsonl into account; whether it is the best so far."""
        self.last = row["round"]
        metrics = (metric for metric in METRICS if row.get(metric) is not None)
        name = self.metric = self.metric or next(metrics, None)
        if name is None or row.get(name) is None:
            return False
        better = operator.lt if name.endswith("loss") else operator.gt
        if self.row and not better(row[name], self.row[name]):
            return False
        self.row = row
        return True

    def waited(self, patience: int | None) -> bool:
        """Whether `patience` rounds have passed without a gain after an evaluation."""
        if patience is None or self.metric is None:
            return False
        return bool(self.last - self.row["round"] >= patience)
