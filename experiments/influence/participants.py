"""How examples are divided in one simulation of the filter."""

from typing import NamedTuple

import numpy as np

from fedsvp_jax.prng import Stream


class Participants(NamedTuple):
    """Indices of examples: the centre's, and those of M participants."""

    warmup: np.ndarray  # (w,) the centre's, which no participant holds
    train: np.ndarray  # (M, n) each contributor's batch
    test: np.ndarray  # (M, m) each tester's test set


def draw_participants(
    labels: np.ndarray,
    num_participants: int,
    *,
    num_warmup: int,
    num_train: int,
    num_test: int,
    partition: str,
    alpha: float,
    seed: int,
) -> Participants:
    """Draws the centre's examples at random, then each participant's from the rest.

    iid: no two participants share an example if there are enough for all; otherwise
    each participant draws from all that the centre does not hold. dirichlet: each
    participant draws its shares of the classes p ~ Dir(alpha · 1_C) (Hsu et al. 2019)
    and then its examples from those classes, with repetition where a class has too
    few; participants may share examples.

    Args:
      labels: (n,) int32, of all examples.
      num_participants: M.
      num_warmup, num_train, num_test: examples of the centre, in each contributor's
        batch and in each tester's test set.
      partition: iid or dirichlet.
      alpha: concentration of the Dirichlet distribution, > 0.
      seed: >= 0.

    Raises:
      ValueError: there are too few examples, alpha is not positive, or the partition is
        another one.
    """
    if partition not in ("iid", "dirichlet"):
        raise ValueError(f"partition must be iid or dirichlet, got {partition!r}")
    each = num_train + num_test
    if num_warmup + each > len(labels):
        raise ValueError(
            f"warmup_examples {num_warmup} plus the {each} examples of one participant "
            f"are more than the {len(labels)} examples of the data set"
        )
    rng = np.random.default_rng((seed, Stream.PARTITION, Stream.INFLUENCE))
    order = rng.permutation(len(labels))
    warmup, rest = np.split(order, [num_warmup])
    if partition == "dirichlet":
        held = _by_class(rng, labels, rest, num_participants, each, alpha)
    elif num_participants * each <= len(rest):
        held = rest[: num_participants * each].reshape(num_participants, each)
    else:
        drawn = [rng.choice(rest, each, replace=False) for _ in range(num_participants)]
        held = np.stack(drawn)
    return Participants(warmup, held[:, :num_train], held[:, num_train:])


def _by_class(
    rng: np.random.Generator,
    labels: np.ndarray,
    rest: np.ndarray,
    num_participants: int,
    each: int,
    alpha: float,
) -> np.ndarray:
    """(M, each) indices into the examples; those of `rest` are drawn."""
    if not alpha > 0:
        raise ValueError(f"dirichlet_alpha must be > 0, got {alpha}")
    classes = [rest[labels[rest] == label] for label in np.unique(labels[rest])]
    held = []
    for _ in range(num_participants):
        shares = rng.dirichlet(np.full(len(classes), alpha))
        counts = rng.multinomial(each, shares)
        drawn = [
            rng.choice(members, count, replace=count > len(members))
            for members, count in zip(classes, counts, strict=True)
        ]
        held.append(rng.permutation(np.concatenate(drawn)))
    return np.stack(held)
