"""How well a filter found the corrupted participants."""

from typing import NamedTuple

import numpy as np


class Filtration(NamedTuple):
    """Shares in [0, 1]; nan where there was nothing to share."""

    recall: float  # of the corrupted, how many were rejected
    precision: float  # of the rejected, how many are corrupted
    accuracy: float  # of all, how many were judged rightly
    f1: float  # 2 · both right / (corrupted + rejected)


def filtration(rejected: np.ndarray, corrupted: np.ndarray) -> Filtration:
    """Recall, precision, accuracy and F1 of two masks (M,).

    Source: lazy influence (arXiv 2205.11518), sec. 4.1.
    """
    rejected, corrupted = np.asarray(rejected, bool), np.asarray(corrupted, bool)
    hits = int(np.sum(rejected & corrupted))

    def share(part: int, whole: int) -> float:
        return part / whole if whole else float("nan")

    return Filtration(
        recall=share(hits, int(corrupted.sum())),
        precision=share(hits, int(rejected.sum())),
        accuracy=float(np.mean(rejected == corrupted)),
        f1=share(2 * hits, int(corrupted.sum() + rejected.sum())),
    )
