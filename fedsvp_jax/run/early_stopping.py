"""Ending a run before its last round: by a hook, or when rounds pass without a gain.

What stopping early means for claims: a number of rounds that the data decide was not
known before, so the ε of the rounds that were run is a tally (nominal). Patience and
hooks see what was released alone, models and what follows from them, so such a run is a
post-processing of the one that is planned and is claimed at its planned length
(`planned_rounds`). A hook that is also given numbers that no noise hides makes every
claim of the run nominal: when the run ends then tells of them.

What the end tells of the server's validation examples or of the test set, which no
client holds, no ε counts.
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


class _Shown(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        why = (
            " is made of private data that no noise hides; run.Options(reveal="
            f"[{name!r}]) shows it, and every claim is nominal then"
        )
        raise KeyError(name + why if name in UNRELEASED else name)


def shown(row: Mapping[str, Any], reveal: Sequence[str] = ()) -> Mapping[str, Any]:
    """What a hook is given of a row: what was released, and the fields of `reveal`."""
    hidden = {*UNRELEASED} - {*reveal}
    return MappingProxyType(_Shown((k, v) for k, v in row.items() if k not in hidden))


# By the first of these that a row has a number for, rounds are compared. A data set
# with targets has no accuracy; of the losses the lowest is the best.
METRICS = ("validation_accuracy", "test_accuracy", "validation_loss", "test_loss")


class BestRound:
    """The best round so far, by the server's validation examples where rows tell it.

    Args:
      rows: of a run's rounds, in their order.

    Attributes:
      metric: of `METRICS`; None before the first evaluation.
      value: the best: the largest accuracy or the lowest loss.
      test_accuracy: in that round.
      test_loss: in that round.
      round_num: the first round that reached it, from 1; 0 before the first evaluation.
      last: the newest round.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.metric: str | None = None
        self.value: float | None = None
        self.test_accuracy: float | None = None
        self.test_loss: float | None = None
        self.round_num = 0
        self.last = 0
        for row in rows:
            self.note(row)

    def note(self, row: Mapping[str, Any]) -> bool:
        """Takes a row of metrics.jsonl into account; whether it is the best so far."""
        self.last = row["round"]
        if self.metric is None:
            self.metric = next((m for m in METRICS if row.get(m) is not None), None)
        value = None if self.metric is None else row.get(self.metric)
        if value is None:
            return False
        better = operator.lt if str(self.metric).endswith("loss") else operator.gt
        if self.value is not None and not better(value, self.value):
            return False
        self.value, self.round_num = value, self.last
        self.test_accuracy = row.get("test_accuracy")
        self.test_loss = row.get("test_loss")
        return True

    def waited(self, patience: int | None) -> bool:
        """Whether `patience` rounds have passed without a gain after an evaluation."""
        if patience is None or self.metric is None:
            return False
        return self.last - self.round_num >= patience
