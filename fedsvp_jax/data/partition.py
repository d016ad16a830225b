"""Who holds which training examples.

Each partition is a pure function of labels or writers and a seed; it returns one
array of example indices a client. `make_split` then takes the private examples from
the honest-but-curious clients and divides each client's data into training and
validation. Draws have addresses (`draws.generator`), so none depends on another.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.prng import Draw, generator
from fedsvp_jax.structs import Array, Split

_MAX_DRAWS = 1000  # of a Dirichlet partition, until every client has its minimum


def _check_clients(num_clients: int, num_available: int, what: str) -> None:
    if not 1 <= num_clients <= num_available:
        raise ValueError(
            f"num_clients must be in [1, {num_available}], the number of {what}, got "
            f"{num_clients}"
        )


def iid(num_examples: int, num_clients: int, *, seed: int) -> list[np.ndarray]:
    """Every example to one client, at random; sizes differ by one at most.

    Raises:
      ValueError: there are more clients than examples.
    """
    _check_clients(num_clients, num_examples, "examples")
    order = generator(seed, Draw.ASSIGN).permutation(num_examples)
    return np.array_split(order, num_clients)


def paper(
    labels: np.ndarray, num_clients: int, *, share: float = 0.05, seed: int
) -> list[np.ndarray]:
    """Every client draws max(1, round(share · n_c)) examples of every class c.

    Without replacement inside a client, independently between clients: clients
    overlap, and a client's draw does not depend on how many clients there are. The
    papers' partition (FedSDP authors' code), whose share is .05.

    Args:
      labels: (n,) int32.
      num_clients: M.
      share: of each class, in (0, 1].
      seed: >= 0.

    Raises:
      ValueError: share or num_clients is out of its range.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be in (0, 1], got {share}")
    if num_clients < 1:
        raise ValueError(f"num_clients must be >= 1, got {num_clients}")
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
    """The examples sorted by label, cut into M·s shards, s of them to each client.

    Every example goes to one client; shard sizes differ by one at most (FedAvg,
    arXiv 1602.05629, sec. 3: s = 2).

    Raises:
      ValueError: shards_per_client < 1, or more shards than examples.
    """
    if shards_per_client < 1:
        raise ValueError(f"shards_per_client must be >= 1, got {shards_per_client}")
    _check_clients(num_clients, len(labels) // shards_per_client, "full sets of shards")
    rng = generator(seed, Draw.ASSIGN)
    shuffled = rng.permutation(len(labels))
    by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
    pieces = np.array_split(by_label, num_clients * shards_per_client)
    deal = rng.permutation(len(pieces)).reshape(num_clients, shards_per_client)
    return [np.concatenate([pieces[i] for i in hand]) for hand in deal]


def dirichlet(
    labels: np.ndarray,
    num_clients: int,
    *,
    alpha: float,
    min_examples: int = 1,
    seed: int,
) -> list[np.ndarray]:
    """Each class divided among the clients in proportions p ~ Dir(alpha · 1_M).

    Every example goes to one client (Yurochkin et al. 2019, arXiv 1905.12022; Hsu et
    al. 2019, arXiv 1909.06335, draw each client's classes instead). The whole draw is
    repeated until every client holds `min_examples`, 1,000 times at most: the law is
    Dirichlet's given that event.

    Args:
      labels: (n,) int32.
      num_clients: M.
      alpha: concentration > 0; small is skewed, large is iid.
      min_examples: the least that a client may hold.
      seed: >= 0.

    Raises:
      ValueError: a number is out of its range, or no draw met the minimum.
    """
    if not alpha > 0:
        raise ValueError(f"alpha must be > 0, got {alpha}")
    if min_examples < 1:
        raise ValueError(f"min_examples must be >= 1, got {min_examples}")
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
            f"alpha {alpha} gave a client fewer than min_examples {min_examples} of "
            f"{len(labels)} examples in each of {_MAX_DRAWS} draws for {num_clients} "
            "clients; a larger alpha, fewer clients or a smaller minimum is needed"
        )
    dealt = [
        np.split(rng.permutation(members), cuts[:-1])
        for members, cuts in zip(classes, ends, strict=True)
    ]
    return [np.concatenate(pieces) for pieces in zip(*dealt, strict=True)]


def by_writer(
    writers: np.ndarray, num_clients: int, *, min_examples: int = 1, seed: int
) -> list[np.ndarray]:
    """A client is one writer; M of the writers are drawn, in random order.

    Args:
      writers: (n,) int32 writer ids.
      num_clients: M, at most the number of writers with enough examples.
      min_examples: writers with fewer are left out (LEAF's smallest has two).
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
    """(M,) the writers that are clients 0, 1, ..., of those with enough examples.

    Args:
      known: writer ids, ascending.
      counts: examples of each.
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
    """The honest-but-curious clients' ids: the last `num_hbc` of them.

    Every partition deals to the clients in random order, so the last ids are as
    good as a draw, and they are the same at every seed.

    Raises:
      ValueError: num_hbc is not in [0, num_clients].
    """
    if not 0 <= num_hbc <= num_clients:
        raise ValueError(f"num_hbc must be in [0, {num_clients}], got {num_hbc}")
    return np.arange(num_clients - num_hbc, num_clients, dtype=np.int32)


def train_counts(attribute_counts: np.ndarray, train_fraction: float) -> np.ndarray:
    """How many examples of each attribute train, (..., N): about the fraction of each.

    The sum is round(fraction · total), rounded parts by largest remainder, except
    that an attribute with two or more examples keeps one on either side, and one
    with a single example trains it.
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
    """A client's indices, shuffled, as (train, validation)."""
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
    """Which of a client's own examples train and which validate, as positions.

    It reads nothing of other clients, so one client of a large population can be
    divided by itself.

    Args:
      client: its id.
      attributes: (n_i,) int32 attribute of each of its examples.
      private_attribute: what an honest-but-curious client lacks.
      curious: whether the client is honest-but-curious.
      train_fraction: in (0, 1).
      seed: >= 0.

    Raises:
      ValueError: the client is left without training or validation examples.
    """
    own = np.arange(len(attributes))
    if curious:
        own = own[attributes != private_attribute]
    rng = generator(seed, Draw.TRAIN_VALIDATION, client)
    kept, held_out = _divide(own, attributes, train_fraction, rng)
    if not len(kept) or not len(held_out):
        raise ValueError(
            too_few_examples(
                client, len(own), curious=curious, train_fraction=train_fraction
            )
        )
    return kept, held_out


def too_few_examples(
    client: int, num_examples: int, *, curious: bool, train_fraction: float
) -> str:
    """What is said of a client that cannot both train and validate."""
    lacking = "private examples removed, " if curious else ""
    return (
        f"client {client} holds {num_examples} examples ({lacking}train_fraction "
        f"{train_fraction}); every client needs at least one for training and one for "
        "validation: ask for fewer clients, a larger minimum or another partition"
    )


def _pad(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The rows as one (M, longest) int32 array padded with 0, and their lengths."""
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
    """Training and validation examples of every client.

    The honest-but-curious clients (`hbc_clients`) lose their private examples
    (FedSVA, sec. 4.1). Each client's rest is shuffled and divided attribute by
    attribute, so that training and validation hold the same shares of every
    attribute: the papers train on the first 80% and want every attribute in
    validation, which a plain cut does not promise.

    Args:
      parts: M arrays of example indices, no index twice in one of them.
      attributes: (n,) int32 attribute of every training example.
      private_attribute: the attribute that the honest-but-curious clients lack.
      num_hbc: how many they are.
      train_fraction: in (0, 1).
      seed: >= 0.

    Raises:
      ValueError: a number is out of its range, or a client is left without training
        or without validation examples.
    """
    if not 0 < train_fraction < 1:
        raise ValueError(f"train_fraction must be in (0, 1), got {train_fraction}")
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
    """Several seeds' splits as one with a leading seed axis, padded alike.

    Args:
      splits: S splits of the same number of clients.

    Returns:
      A Split whose leaves have the shapes (S, M, longest) and (S, M).

    Raises:
      ValueError: there is none, or they have different numbers of clients.
    """
    clients = {split.num_train.shape[0] for split in splits}
    if len(clients) != 1:
        raise ValueError(
            "splits must be one or more of the same number of clients, got "
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
