"""Ending a run before its last round: by a hook, or when rounds pass without a gain.

What stopping early means for claims: the ledger counts the uploads that were made, so a
run that ends early has spent less. When it ends is told to everybody, and nothing
counts what that tells of the examples that decided it: the server's validation examples
or the test set, which no client holds.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final


class _Stop:
    def __repr__(self) -> str:
        return "run.STOP"


# What a hook returns to end the run after the round that it was told of.
STOP: Final = _Stop()

# (round from 1, its row of metrics.jsonl, read-only) -> STOP or None
Hook = Callable[[int, Mapping[str, Any]], object]

# By the first of these that a row has a number for, rounds are compared. A data set
# with targets has no accuracy; of the losses the lowest is the best.
METRICS = ("validation_accuracy", "test_accuracy", "validation_loss", "test_loss")


class BestRound:
    """The best round so far, by the server's validation examples where rows tell it.

    Attributes:
      metric: of `METRICS`; None before the first evaluation.
      value: the best: the largest accuracy or the lowest loss.
      test_accuracy: in that round.
      test_loss: in that round.
      round_num: the first round that reached it, from 1; 0 before the first evaluation.
      last: the newest round.
    """

    def __init__(self) -> None:
        self.metric: str | None = None
        self.value: float | None = None
        self.test_accuracy: float | None = None
        self.test_loss: float | None = None
        self.round_num = 0
        self.last = 0

    def note(self, row: Mapping[str, Any]) -> bool:
        """Takes a row of metrics.jsonl into account; whether it is the best so far."""
        self.last = row["round"]
        if self.metric is None:
            self.metric = next((m for m in METRICS if row.get(m) is not None), None)
        value = None if self.metric is None else row.get(self.metric)
        if value is None or not self._is_better(value):
            return False
        self.value, self.round_num = value, self.last
        self.test_accuracy = row.get("test_accuracy")
        self.test_loss = row.get("test_loss")
        return True

    def _is_better(self, value: float) -> bool:
        if self.value is None:
            return True
        if str(self.metric).endswith("loss"):
            return value < self.value
        return value > self.value

    def waited(self, patience: int | None) -> bool:
        """Whether `patience` rounds have passed without a gain after an evaluation."""
        if patience is None or self.metric is None:
            return False
        return self.last - self.round_num >= patience


def best_round(rows: Iterable[Mapping[str, Any]]) -> BestRound:
    """The best of a run's rows, which are in the order of the rounds."""
    best = BestRound()
    for row in rows:
        best.note(row)
    return best
