"""Who holds what in one simulation of the filter: rows of a pool of examples."""

from typing import NamedTuple

import numpy as np

from fedsvp_jax.prng import Stream


class Participants(NamedTuple):
    """Rows of the pool."""

    warmup: np.ndarray  # (w,) the centre's own
    train: np.ndarray  # (M, n) a contributor's batch
    test: np.ndarray  # (M, m) a tester's


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
    """The centre's rows, then every participant's, at random.

    iid: disjoint rows where the pool has enough, else each participant draws its own
    from all that the centre does not hold. dirichlet: a participant's classes follow
    p ~ Dir(alpha · 1_C), drawn for itself (Hsu et al. 2019), and its rows are drawn
    from its classes' rows; participants may then share some.

    Args:
      labels: (n,) int32 of the pool.
      num_participants: M.
      num_warmup, num_train, num_test: rows of the centre and of each participant.
      partition: iid or dirichlet.
      alpha: concentration > 0.
      seed: >= 0.

    Raises:
      ValueError: the pool, or a class of it, is too small, or another partition.
    """
    if partition not in ("iid", "dirichlet"):
        raise ValueError(f"partition must be iid or dirichlet, got {partition!r}")
    each = num_train + num_test
    if num_warmup + each > len(labels):
        raise ValueError(
            f"warmup_examples {num_warmup} and {each} of a participant are more than "
            f"the {len(labels)} examples that there are"
        )
    rng = np.random.default_rng((seed, Stream.PARTITION, Stream.INFLUENCE))
    order = rng.permutation(len(labels))
    warmup, rest = np.split(order, [num_warmup])
    if partition == "dirichlet":
        held = _by_class(rng, labels, rest, num_participants, each, alpha)
    elif num_participants * each <= len(rest):
        held = rest[: num_participants * each].reshape(num_participants, each)
    else:
        own = [rng.choice(rest, each, replace=False) for _ in range(num_participants)]
        held = np.stack(own)
    return Participants(warmup, held[:, :num_train], held[:, num_train:])


def _by_class(
    rng: np.random.Generator,
    labels: np.ndarray,
    rest: np.ndarray,
    num_participants: int,
    each: int,
    alpha: float,
) -> np.ndarray:
    if not alpha > 0:
        raise ValueError(f"dirichlet_alpha must be > 0, got {alpha}")
    classes = [rest[labels[rest] == label] for label in np.unique(labels[rest])]
    rows = []
    for _ in range(num_participants):
        shares = rng.dirichlet(np.full(len(classes), alpha))
        counts = rng.multinomial(each, shares)
        own = [
            rng.choice(members, count, replace=count > len(members))
            for members, count in zip(classes, counts, strict=True)
        ]
        rows.append(rng.permutation(np.concatenate(own)))
    return np.stack(rows)
