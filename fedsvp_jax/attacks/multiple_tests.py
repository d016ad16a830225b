"""Many hypotheses at one family-wise error rate."""

from collections.abc import Sequence


def holm(p_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which hypotheses are rejected; a true one is among them with chance ≤ level.

    The k-th smallest of m p-values is rejected if it and all smaller ones satisfy
    p_(k) ≤ level/(m − k + 1). Nothing is assumed about their dependence.

    Args:
      p_values: of m hypotheses, each in [0, 1].
      level: the family-wise error rate, in (0, 1).

    Raises:
      ValueError: a p-value or the level is out of its range.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    wrong = [p for p in p_values if not 0 <= p <= 1]
    if wrong:
        raise ValueError(f"p-values must be between 0 and 1, got {wrong[0]}")
    rejected = [False] * len(p_values)
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, index in enumerate(order):
        if p_values[index] > level / (len(order) - rank):
            break
        rejected[index] = True
    return rejected
