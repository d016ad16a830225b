"""Games of clients: how their examples are dealt to attributes, and what judges.

A client's training examples (at most 200) are dealt to N attributes as the kind says:

  equal      shares of one size
  dirichlet  random shares, Dirichlet(.5)
  rare       one attribute has 2 % of the examples
  duplicate  the last attribute is a copy of the one before it
  harmful    the last attribute's labels are random
  grouped    examples of an attribute are alike: by class, or by the first feature

All 2^N coalitions of a recorded game were trained once, from the model of a FedAvg
federation and with one key, by the code that docs/results/shapley.md names. A line of a
file of games has `counts` (N,) training examples by attribute, and for accuracy and for
loss the utilities `worth` of all coalitions by bitmask, and `blend`, the utilities of
the blended models (docs/appendix/estimators.md), which only the trainings of single
attributes and of all are needed for. HELD_OUT says which games chose nothing.
"""

from typing import Any

import numpy as np

KINDS = ("equal", "dirichlet", "rare", "duplicate", "harmful", "grouped")
# Fixed before any game was recorded: seed 0 of digits and MNIST may choose kernels,
# hyperparameters and rules; seeds 1 and 2, and all of adult, only judge.
DEVELOPMENT = {("digits", 0), ("mnist", 0)}
HELD_OUT = {
    *((name, seed) for name in ("digits", "mnist") for seed in (1, 2)),
    *(("adult", seed) for seed in (1, 2)),
}
MOST_EXAMPLES = 200


def dealt(
    kind: str, number: int, features: np.ndarray, labels: np.ndarray, seed: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, attributes, labels) of a game on a client's examples, shuffled."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(labels))
    shares = np.ones(number)
    if kind == "dirichlet":
        shares = draw.dirichlet(np.full(number, 0.5))
    elif kind == "rare":
        shares[0] = 0.02 * (number - 1) / 0.98
    elif kind == "grouped":
        by = features.reshape(len(labels), -1)[:, 0]
        order = order[np.argsort(by[order], kind="stable")]
        if len(np.unique(labels)) >= number:
            order = order[np.argsort(labels[order], kind="stable")]
    playing = number - (kind == "duplicate")
    counts = 1 + np.floor(
        (len(order) - playing) * shares[:playing] / shares[:playing].sum()
    ).astype(int)
    rows = order[: counts.sum()]
    attributes = np.repeat(np.arange(playing), counts)
    wanted = labels[rows].copy()
    if kind == "duplicate":
        copied = attributes == playing - 1
        rows = np.concatenate([rows, rows[copied]])
        wanted = np.concatenate([wanted, wanted[copied]])
        attributes = np.append(attributes, np.full(copied.sum(), playing))
    if kind == "harmful":
        mine = attributes == number - 1
        wanted[mine] = draw.integers(0, labels.max() + 1, mine.sum())
    return rows, attributes, wanted


def blended(
    logits: np.ndarray, counts: np.ndarray, coalitions: np.ndarray
) -> np.ndarray:
    """(S, v, c): the blend of the logits of single attributes and of all."""
    members = coalitions * counts
    size = np.maximum(members.sum(1), 1)
    within = (size**2 - (members**2).sum(1)) / (counts.sum() ** 2 - (counts**2).sum())
    alone = np.tensordot(members / size[:, None], logits[:-1], 1)
    q = within[:, None, None]
    return np.asarray((1 - q) * alone + q * logits[-1])
