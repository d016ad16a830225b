"""Scores of a table's test rows beside accuracy: what an accuracy alone would hide."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_LEAST = 1e-12  # of a probability in the log loss
_ROC_POINTS = 101  # at most
_BINS, _ROWS_OF_A_BIN = 10, 20  # of the calibration: at most, and at least
_TWO_ERRORS = 2.0  # standard errors above guessing that count as better


def auc(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """P[s₊ > s₋] + P[s₊ = s₋]/2 of a positive and a negative row; None without both.

    The Mann-Whitney statistic, by mid-ranks, over the number of pairs.

    Args:
      scores: (n,) larger for what is thought positive.
      positive: (n,) bool.
    """
    ones = int(positive.sum())
    if not 0 < ones < len(positive):
        return None
    from scipy.stats import rankdata  # which takes a while to import

    above = rankdata(scores)[positive].sum() - ones * (ones + 1) / 2
    return float(above / (ones * (len(positive) - ones)))


def of_table(
    chances: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str] | None,
    clients: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Scores of a model's probabilities, and of guessing the most frequent class.

    Args:
      chances: (n, classes) probabilities.
      labels: (n,) in [0, classes).
      names: of the classes, or None.
      clients: (n,) the name of each row's client; "" where it is none that trained.

    Returns:
      accuracy; guessing, the share of the most frequent class; balanced_accuracy, the
      mean over classes of the share of right rows; auc, of several classes the mean of
      each against the rest; log_loss, the mean of -ln p(label); counts by class;
      confusion, (classes, classes) rows by class and predicted class; of two classes
      roc and calibration; by_client; and useful: whether accuracy is two standard
      errors above guessing, or auc above 1/2.
    """
    predicted, rows = chances.argmax(-1), np.arange(len(labels))
    confusion = np.zeros((chances.shape[1],) * 2, int)
    np.add.at(confusion, (labels, predicted), 1)
    counts, right = confusion.sum(1), predicted == labels
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
    scores_of_rows: dict[str, Any] = {
        "accuracy": float(right.mean()),
        "guessing": guessing,
        "balanced_accuracy": float(
            np.mean(confusion.diagonal()[present] / counts[present])
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
        "confusion": confusion.tolist(),
    }
    if len(present) == len(counts) == 2:
        scores_of_rows |= {
            "roc": _roc(chances[:, 1], labels == 1),
            "calibration": _calibration(chances[:, 1], labels == 1),
        }
    if clients is not None:
        masks = {c: np.asarray(clients) == c for c in sorted({*clients} - {""})}
        scores_of_rows["by_client"] = {
            client: {"rows": int(mask.sum()), "right": int(right[mask].sum())}
            for client, mask in masks.items()
        }
    return scores_of_rows


def _roc(scores: np.ndarray, positive: np.ndarray) -> dict[str, list[float]]:
    """Shares of negative and of positive rows at or above each threshold."""
    from sklearn.metrics import roc_curve  # which takes a second to import

    false_alarms, recognised, _ = roc_curve(positive, scores)
    places = np.unique(
        np.linspace(0, len(recognised) - 1, _ROC_POINTS).round().astype(int)
    )
    return {
        "false_alarms": false_alarms[places].tolist(),
        "recognised": recognised[places].tolist(),
    }


def _calibration(scores: np.ndarray, positive: np.ndarray) -> list[dict[str, float]]:
    """Bins of as many rows each, by rising probability: mean, rows, positive rows."""
    bins = max(1, min(_BINS, len(scores) // _ROWS_OF_A_BIN))
    return [
        {
            "chance": float(scores[rows].mean()),
            "rows": len(rows),
            "positive": int(positive[rows].sum()),
        }
        for rows in np.array_split(np.argsort(scores, kind="stable"), bins)
    ]
