"""Uploads recorded in a ledger without a run."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsvp_jax.accounting import Ledger


def record(
    book: Ledger,
    ids: Sequence[int] | np.ndarray,
    *,
    multiplier: Any,
    std: Any = 1.0,
    epsilon: Any = 0.2,
    delta: Any = 0.025,
    weights: Any = None,
    **more: Any,
) -> None:
    """Records the next round; one number stands for all of its uploads."""

    def each(value: Any) -> np.ndarray:
        return np.full(len(ids), value, np.float64)

    told = {
        "round_num": book.rounds + 1,
        "noise_multiplier": each(multiplier),
        "noise_std": each(std),
        "epsilon": each(epsilon),
        "delta": each(delta),
        "weights": None if weights is None else each(weights),
    }
    book.record(ids, **(told | more))
