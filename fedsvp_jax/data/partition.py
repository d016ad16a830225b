"""Partitions: the training examples of each client.

Each partition is a pure function of the labels or the writers, (n,) int32, of M, the
number of clients, and of a seed, at least 0. It returns one array of example indices
per client, which data/train_validation.py then divides into training and validation.
Each draw has a generator of its own (`prng.generator`), so no draw depends on how many
others were made. `PartitionSettings` holds the limits of each number;
the functions here refuse what the data cannot give.
"""

import dataclasses

import numpy as np

from fedsvp_jax.core.prng import Draw, generator
from fedsvp_jax.core.settings import Settings, setting

Parts = list[np.ndarray]  # rows of each client
_MAX_DRAWS = 1000  # of a Dirichlet partition, until every client holds enough


@dataclasses.dataclass(frozen=True)
class PartitionSettings(Settings):
    """Clients: how the examples are divided among them."""

    num_hbc_clients: int | None = setting(
        None,
        "Honest-but-curious clients, which hold no private data. Default: a tenth of "
        "--num_clients, rounded down; none for data of one's own.",
        at_least=0,
    )
    partition: str | None = setting(
        None,
        "How examples are divided among clients: iid (random equal parts), paper "
        "(every client draws --class_share of each class, so clients overlap), "
        "dirichlet (label skew), by_writer (one client per writer). Default: paper for "
        "image data sets.",
        choices=("iid", "paper", "dirichlet", "by_writer"),
    )
    class_share: float | None = setting(
        None,
        "Share of each class that a client draws (partition=paper). Default: 0.05 "
        "(digits: 0.1).",
        above=0,
        at_most=1,
        needs="partition=paper",
    )
    dirichlet_alpha: float = setting(
        0.5,
        "Label skew of partition=dirichlet: a smaller value is more skewed.",
        above=0,
        needs="partition=dirichlet",
    )
    train_fraction: float = setting(
        0.8,
        "Part of a client's examples that it trains on; it validates on the rest, for "
        "contribution ratios and the influence filter. Without these it may be 1.",
        above=0,
        at_most=1,
    )
    split: str = setting(
        "stratified",
        "Which of a client's examples it trains on: stratified (--train_fraction of "
        "each attribute, as published, so a guarantee covers only replacements that "
        "keep a record's attribute) or by_position (drawn without a look at any "
        "attribute).",
        choices=("stratified", "by_position"),
    )


def _check_clients(num_clients: int, num_available: int, unit: str) -> None:
    if not 1 <= num_clients <= num_available:
        raise ValueError(
            f"num_clients must be between 1 and {num_available}, the number of {unit}; "
            f"got {num_clients}"
        )


def iid(num_examples: int, num_clients: int, *, seed: int) -> Parts:
    """Deals every example to one client at random; sizes differ by at most one.

    Raises:
      ValueError: there are more clients than examples.
    """
    _check_clients(num_clients, num_examples, "examples")
    order = generator(seed, Draw.ASSIGN).permutation(num_examples)
    return np.array_split(order, num_clients)


def paper(
    labels: np.ndarray, num_clients: int, *, share: float = 0.05, seed: int
) -> Parts:
    """Every client draws max(1, round(share · n_c)) of the n_c examples of a class c.

    A client never draws an example twice, but several clients may draw the same one.
    A client's draw does not depend on the number of clients. This is the papers'
    partition (the FedSDP authors' code), with a share of .05.
    """
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    parts = []
    for client in range(num_clients):
        rng = generator(seed, Draw.ASSIGN, client)
        choices = [
            rng.choice(members, max(1, round(share * len(members))), replace=False)
            for members in classes
        ]
        parts.append(np.concatenate(choices))
    return parts


def dirichlet(
    labels: np.ndarray,
    num_clients: int,
    *,
    alpha: float,
    min_examples: int = 1,
    seed: int,
) -> Parts:
    """Divides each class among the clients in proportions p ~ Dir(alpha · 1_M).

    Every example goes to one client (Yurochkin et al. 2019, arXiv 1905.12022; Hsu et
    al. 2019, arXiv 1909.06335, draw each client's classes instead). All classes are
    drawn anew, at most 1,000 times, until every client holds `min_examples`. The law is
    therefore that of the proportions conditional on every client holding enough.

    Args:
      alpha: concentration > 0; a small one skews the classes, a large one is close to
        iid.
      min_examples: the fewest examples that a client may hold.

    Raises:
      ValueError: too many clients, or every draw left one with too few examples.
    """
    _check_clients(num_clients, len(labels) // min_examples, "full shares of examples")
    rng = generator(seed, Draw.ASSIGN)
    values, sizes = np.unique(labels, return_counts=True)
    classes = [np.flatnonzero(labels == value) for value in values]
    for _ in range(_MAX_DRAWS):
        shares = rng.dirichlet(np.full(num_clients, alpha), size=len(classes))
        ends = np.round(np.cumsum(shares, axis=1) * sizes[:, None]).astype(np.int64)
        ends[:, -1] = sizes
        if np.diff(ends, axis=1, prepend=0).sum(axis=0).min() >= min_examples:
            break
    else:
        raise ValueError(
            f"dirichlet_alpha={alpha} left a client with fewer than {min_examples} "
            f"examples, the least that it needs, in each of {_MAX_DRAWS} draws; raise "
            f"--dirichlet_alpha or lower --num_clients (now {num_clients})"
        )
    dealt = [
        np.split(rng.permutation(members), cuts[:-1])
        for members, cuts in zip(classes, ends, strict=True)
    ]
    return [*map(np.concatenate, zip(*dealt, strict=True))]


def by_writer(
    writers: np.ndarray, num_clients: int, *, min_examples: int = 1, seed: int
) -> Parts:
    """Makes each client one writer; M writers are drawn, in random order.

    Args:
      min_examples: writers with fewer examples are left out (the smallest writer of
        LEAF has two).

    Raises:
      ValueError: there are fewer such writers than clients.
    """
    by_owner = rows_by_owner(writers)
    counts = np.array([*map(len, by_owner)])
    chosen = draw_writers(counts, num_clients, min_examples=min_examples, seed=seed)
    return [by_owner[place] for place in chosen]


def rows_by_owner(owners: np.ndarray) -> Parts:
    """The rows of each owner, both ascending.

    Args:
      owners: (n,) int32, at least 0.
    """
    halves = owners.astype(np.uint16), (owners >> 16).astype(np.uint16)
    rows = np.lexsort(halves)  # NumPy sorts 16 bits by radix, 32 by comparing
    return np.split(rows, np.flatnonzero(np.diff(owners[rows])) + 1)


def draw_writers(
    counts: np.ndarray, num_clients: int, *, min_examples: int, seed: int
) -> np.ndarray:
    """(M,): the places in `counts` that become the clients 0, 1, ..., M - 1."""
    enough = np.flatnonzero(counts >= min_examples)
    _check_clients(
        num_clients, len(enough), f"writers with at least {min_examples} examples"
    )
    return generator(seed, Draw.ASSIGN).permutation(enough)[:num_clients]


def hbc_clients(num_clients: int, num_hbc: int) -> np.ndarray:
    """(num_hbc,): the ids of the honest-but-curious clients, which are the last ones.

    Every partition deals to the clients in random order, so taking the last clients is
    as good as drawing them, and their ids are the same for every seed.
    """
    return np.arange(num_clients - num_hbc, num_clients, dtype=np.int32)
