"""Scores of a table's test rows beside accuracy: what an accuracy alone would hide."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_LEAST = 1e-12  # of a probability in the log loss
_TWO_ERRORS = 2.0  # standard errors above guessing that count as better


def auc(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """P[s₊ > s₋] + P[s₊ = s₋]/2 of a positive and a negative row; None without both.

    The Mann-Whitney statistic, by mid-ranks.

    Args:
      scores: (n,) larger for what is thought positive.
      positive: (n,) bool.
    """
    ones = int(positive.sum())
    if not 0 < ones < len(positive):
        return None
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[places]
    above = ranks[positive].sum() - ones * (ones + 1) / 2
    return float(above / (ones * (len(positive) - ones)))


def of_table(
    chances: np.ndarray, labels: np.ndarray, names: Sequence[str] | None
) -> dict[str, Any]:
    """Scores of a model's probabilities, and of guessing the most frequent class.

    Args:
      chances: (n, classes) probabilities.
      labels: (n,) in [0, classes).
      names: of the classes, or None.

    Returns:
      accuracy; guessing, the share of the most frequent class; balanced_accuracy, the
      mean over classes of the share of right rows; auc, of several classes the mean of
      each against the rest; log_loss, the mean of -ln p(label); counts by class; and
      useful: whether accuracy is two standard errors above guessing, or auc above 1/2.
    """
    predicted, rows = chances.argmax(-1), np.arange(len(labels))
    counts = np.bincount(labels, minlength=chances.shape[1])
    right = predicted == labels
    present = np.flatnonzero(counts)
    classes = range(1, 2) if len(counts) == 2 else range(len(counts))
    areas = [auc(chances[:, number], labels == number) for number in classes]
    defined = [area for area in areas if area is not None]
    area = float(np.mean(defined)) if defined else None
    guessing = float(counts.max() / len(labels))
    error = np.sqrt(guessing * (1 - guessing) / len(labels))
    fewest = max(int(counts[present].min()), 1)
    ranks_well = area is not None and area > 0.5 + _TWO_ERRORS / np.sqrt(12 * fewest)
    better = bool(right.mean() > guessing + _TWO_ERRORS * error)
    return {
        "accuracy": float(right.mean()),
        "guessing": guessing,
        "balanced_accuracy": float(
            np.mean([right[labels == c].mean() for c in present])
        ),
        "auc": area,
        "log_loss": float(
            -np.log(np.maximum(chances[rows, labels], _LEAST)).mean(dtype=np.float64)
        ),
        "counts": {
            str(c if names is None else names[c]): int(n) for c, n in enumerate(counts)
        },
        "better_than_guessing": better,
        "useful": better or bool(ranks_well),
    }
