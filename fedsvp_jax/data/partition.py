"""Which client holds which training examples.

Each partition is a pure function of the labels or the writers and of a seed. It returns
one array of example indices per client. `make_split` then removes the private examples
of the honest-but-curious clients and divides each client's examples into training and
validation. Each draw has a generator of its own (`prng.generator`), so no draw depends
on how many others were made.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.prng import Draw, generator
from fedsvp_jax.structs import Array, Split

_MAX_DRAWS = 1000  # of a Dirichlet partition, until every client holds enough


def _check_clients(num_clients: int, num_available: int, what: str) -> None:
    if not 1 <= num_clients <= num_available:
        raise ValueError(
            f"num_clients must be between 1 and {num_available}, the number of {what}; "
            f"got {num_clients}"
        )


def iid(num_examples: int, num_clients: int, *, seed: int) -> list[np.ndarray]:
    """Deals every example to one client at random; sizes differ by at most one.

    Args:
      num_examples: n.
      num_clients: M.
      seed: >= 0.

    Raises:
      ValueError: there are more clients than examples.
    """
    _check_clients(num_clients, num_examples, "examples")
    order = generator(seed, Draw.ASSIGN).permutation(num_examples)
    return np.array_split(order, num_clients)


def paper(
    labels: np.ndarray, num_clients: int, *, share: float = 0.05, seed: int
) -> list[np.ndarray]:
    """Every client draws max(1, round(share · n_c)) of the n_c examples of a class c.

    A client never draws an example twice, but several clients may draw the same one.
    A client's draw does not depend on the number of clients. This is the papers'
    partition (the FedSDP authors' code), with a share of .05.

    Args:
      labels: (n,) int32.
      num_clients: M.
      share: of each class, in (0, 1].
      seed: >= 0.

    Raises:
      ValueError: share or num_clients is out of its range.
    """
    if not 0 < share <= 1:
        raise ValueError(
            f"class_share must be greater than 0 and at most 1, got {share}"
        )
    if num_clients < 1:
        raise ValueError(f"num_clients must be at least 1, got {num_clients}")
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    counts = [max(1, round(share * len(members))) for members in classes]
    parts = []
    for client in range(num_clients):
        rng = generator(seed, Draw.ASSIGN, client)
        drawn = [
            rng.choice(members, count, replace=False)
            for members, count in zip(classes, counts, strict=True)
        ]
        parts.append(np.concatenate(drawn))
    return parts


def shards(
    labels: np.ndarray, num_clients: int, *, shards_per_client: int = 2, seed: int
) -> list[np.ndarray]:
    """Cuts the examples, sorted by label, into M·s shards and deals s to each client.

    Every example goes to one client; shard sizes differ by at most one (FedAvg,
    arXiv 1602.05629, sec. 3, with s = 2).

    Args:
      labels: (n,) int32.
      num_clients: M.
      shards_per_client: s.
      seed: >= 0.

    Raises:
      ValueError: shards_per_client < 1, or more shards than examples.
    """
    if shards_per_client < 1:
        raise ValueError(
            f"shards_per_client must be at least 1, got {shards_per_client}"
        )
    _check_clients(num_clients, len(labels) // shards_per_client, "full sets of shards")
    rng = generator(seed, Draw.ASSIGN)
    shuffled = rng.permutation(len(labels))
    by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
    shards = np.array_split(by_label, num_clients * shards_per_client)
    deal = rng.permutation(len(shards)).reshape(num_clients, shards_per_client)
    return [np.concatenate([shards[i] for i in hand]) for hand in deal]


def dirichlet(
    labels: np.ndarray,
    num_clients: int,
    *,
    alpha: float,
    min_examples: int = 1,
    seed: int,
) -> list[np.ndarray]:
    """Divides each class among the clients in proportions p ~ Dir(alpha · 1_M).

    Every example goes to one client (Yurochkin et al. 2019, arXiv 1905.12022; Hsu et
    al. 2019, arXiv 1909.06335, draw each client's classes instead). All classes are
    drawn anew, at most 1,000 times, until every client holds `min_examples`. The law is
    therefore that of the proportions conditional on every client holding enough.

    Args:
      labels: (n,) int32.
      num_clients: M.
      alpha: concentration > 0; a small one skews the classes, a large one is close to
        iid.
      min_examples: the fewest examples that a client may hold.
      seed: >= 0.

    Raises:
      ValueError: a number is out of its range, or every draw left a client with too
        few examples.
    """
    if not alpha > 0:
        raise ValueError(f"dirichlet_alpha must be greater than 0, got {alpha}")
    if min_examples < 1:
        raise ValueError(f"min_examples must be at least 1, got {min_examples}")
    _check_clients(num_clients, len(labels) // min_examples, "full shares of examples")
    rng = generator(seed, Draw.ASSIGN)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    sizes = np.array([len(members) for members in classes])
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
    return [np.concatenate(shares) for shares in zip(*dealt, strict=True)]


def by_writer(
    writers: np.ndarray, num_clients: int, *, min_examples: int = 1, seed: int
) -> list[np.ndarray]:
    """Makes each client one writer; M writers are drawn, in random order.

    Args:
      writers: (n,) int32 writer ids.
      num_clients: M, at most the number of writers with enough examples.
      min_examples: writers with fewer examples are left out (the smallest writer of
        LEAF has two).
      seed: >= 0.

    Raises:
      ValueError: there are fewer such writers than clients.
    """
    known, counts = np.unique(writers, return_counts=True)
    chosen = draw_writers(
        known, counts, num_clients, min_examples=min_examples, seed=seed
    )
    return [np.flatnonzero(writers == writer) for writer in chosen]


def draw_writers(
    known: np.ndarray,
    counts: np.ndarray,
    num_clients: int,
    *,
    min_examples: int,
    seed: int,
) -> np.ndarray:
    """(M,): the writers that become the clients 0, 1, ..., M - 1.

    Args:
      known: writer ids, ascending.
      counts: number of examples of each writer.
      num_clients, min_examples, seed: as `by_writer` takes them.

    Raises:
      ValueError: there are fewer such writers than clients.
    """
    enough = known[counts >= min_examples]
    _check_clients(
        num_clients, len(enough), f"writers with at least {min_examples} examples"
    )
    return generator(seed, Draw.ASSIGN).permutation(enough)[:num_clients]


def hbc_clients(num_clients: int, num_hbc: int) -> np.ndarray:
    """(num_hbc,): the ids of the honest-but-curious clients, which are the last ones.

    Every partition deals to the clients in random order, so taking the last clients is
    as good as drawing them, and their ids are the same for every seed.

    Raises:
      ValueError: num_hbc is not in [0, num_clients].
    """
    if not 0 <= num_hbc <= num_clients:
        raise ValueError(
            f"num_hbc_clients must be between 0 and num_clients = {num_clients}, got "
            f"{num_hbc}"
        )
    return np.arange(num_clients - num_hbc, num_clients, dtype=np.int32)


def train_counts(attribute_counts: np.ndarray, train_fraction: float) -> np.ndarray:
    """(..., N): how many examples of each attribute are used for training.

    The counts are `train_fraction` of each attribute's examples, rounded by largest
    remainder so that they sum to round(train_fraction · total). Two exceptions may
    change that sum: an attribute with two or more examples keeps at least one for
    training and one for validation, and a single example is used for training.

    Args:
      attribute_counts: (..., N) int, examples of each attribute.
      train_fraction: in (0, 1).
    """
    wanted = train_fraction * attribute_counts
    counts = np.floor(wanted).astype(np.int64)
    total = np.rint(train_fraction * attribute_counts.sum(-1, keepdims=True))
    missing = total.astype(np.int64) - counts.sum(-1, keepdims=True)
    by_remainder = np.argsort(counts - wanted, axis=-1, kind="stable")
    counts += np.argsort(by_remainder, axis=-1) < missing
    at_least = np.minimum(attribute_counts, 1)
    at_most = np.maximum(attribute_counts - 1, at_least)
    return np.clip(counts, at_least, at_most)


def _divide(
    indices: np.ndarray,
    attributes: np.ndarray,
    train_fraction: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """A client's indices, shuffled and divided into `(train, validation)`."""
    shuffled = rng.permutation(indices)
    held = attributes[shuffled]
    values, codes, sizes = np.unique(held, return_inverse=True, return_counts=True)
    quota = train_counts(sizes, train_fraction)
    trains = np.zeros(len(shuffled), bool)
    for code in range(len(values)):
        trains[np.flatnonzero(codes == code)[: quota[code]]] = True
    return shuffled[trains], shuffled[~trains]


def divide_client(
    client: int,
    attributes: np.ndarray,
    *,
    private_attribute: int,
    curious: bool,
    train_fraction: float,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Divides one client's examples: their positions as `(train, validation)`.

    It needs nothing of the other clients, so that one client of a large population can
    be divided alone.

    Args:
      client: its id.
      attributes: (n_i,) int32, the attribute of each of its examples.
      private_attribute: the attribute whose examples an honest-but-curious client
        loses.
      curious: whether the client is honest-but-curious.
      train_fraction: in (0, 1).
      seed: >= 0.

    Raises:
      ValueError: the client is left without training or validation examples.
    """
    positions = np.arange(len(attributes))
    if curious:
        positions = positions[attributes != private_attribute]
    rng = generator(seed, Draw.TRAIN_VALIDATION, client)
    kept, held_out = _divide(positions, attributes, train_fraction, rng)
    if not len(kept) or not len(held_out):
        raise ValueError(
            too_few_examples(
                client, len(positions), curious=curious, train_fraction=train_fraction
            )
        )
    return kept, held_out


def too_few_examples(
    client: int, num_examples: int, *, curious: bool, train_fraction: float
) -> str:
    """The error message for a client that cannot both train and validate."""
    lacking = "private examples removed, " if curious else ""
    return (
        f"client {client} holds {num_examples} examples ({lacking}train_fraction "
        f"{train_fraction}); every client needs at least one for training and one for "
        "validation: use fewer clients or another --partition"
    )


def _pad(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """`(padded, lengths)`: the rows as one (M, longest) int32 array, padded with 0."""
    lengths = np.array([len(row) for row in rows], np.int32)
    padded = np.zeros((len(rows), int(lengths.max())), np.int32)
    for target, row in zip(padded, rows, strict=True):
        target[: len(row)] = row
    return padded, lengths


def make_split(
    parts: Sequence[np.ndarray],
    attributes: np.ndarray,
    *,
    private_attribute: int,
    num_hbc: int,
    train_fraction: float = 0.8,
    seed: int,
) -> Split:
    """The training and validation examples of every client.

    The honest-but-curious clients (`hbc_clients`) lose their private examples
    (FedSVA, sec. 4.1). The remaining examples of each client are shuffled and divided
    attribute by attribute, so that training and validation hold the same shares of
    every attribute. The papers train on the first 80% and want every attribute in the
    validation examples, which such a cut does not ensure.

    Args:
      parts: M arrays of example indices; no array holds an index twice.
      attributes: (n,) int32, the attribute of every training example.
      private_attribute: the attribute whose examples the honest-but-curious clients
        lose.
      num_hbc: number of honest-but-curious clients.
      train_fraction: in (0, 1).
      seed: >= 0.

    Raises:
      ValueError: a number is out of its range, or a client is left without training
        or without validation examples.
    """
    if not 0 < train_fraction < 1:
        raise ValueError(
            f"train_fraction must be between 0 and 1, got {train_fraction}"
        )
    curious = set(hbc_clients(len(parts), num_hbc).tolist())
    train, validation = [], []
    for client, indices in enumerate(parts):
        kept, held_out = divide_client(
            client,
            attributes[indices],
            private_attribute=private_attribute,
            curious=client in curious,
            train_fraction=train_fraction,
            seed=seed,
        )
        train.append(indices[kept])
        validation.append(indices[held_out])
    train_rows, num_train = _pad(train)
    validation_rows, num_validation = _pad(validation)
    return Split(
        train=jnp.asarray(train_rows),
        num_train=jnp.asarray(num_train),
        validation=jnp.asarray(validation_rows),
        num_validation=jnp.asarray(num_validation),
    )


def stack_splits(splits: Sequence[Split]) -> Split:
    """The splits of several seeds as one, padded to a common length.

    Args:
      splits: S splits of the same number of clients.

    Returns:
      A Split whose leaves have the shapes (S, M, longest) and (S, M).

    Raises:
      ValueError: `splits` is empty, or they have different numbers of clients.
    """
    clients = {split.num_train.shape[0] for split in splits}
    if len(clients) != 1:
        raise ValueError(
            "splits must be at least one, all of the same number of clients, got "
            f"{sorted(clients)}"
        )
    longest_train = max(split.train.shape[1] for split in splits)
    longest_validation = max(split.validation.shape[1] for split in splits)

    def padded(rows: Array, length: int) -> Array:
        return jnp.pad(rows, ((0, 0), (0, length - rows.shape[1])))

    return Split(
        train=jnp.stack([padded(s.train, longest_train) for s in splits]),
        num_train=jnp.stack([s.num_train for s in splits]),
        validation=jnp.stack(
            [padded(s.validation, longest_validation) for s in splits]
        ),
        num_validation=jnp.stack([s.num_validation for s in splits]),
    )
