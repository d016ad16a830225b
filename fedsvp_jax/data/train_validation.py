"""The division of each client's examples into training and validation."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.prng import Draw, generator
from fedsvp_jax.core.structs import Array, Split

Sides = tuple[np.ndarray, np.ndarray]  # for training and for validation


def _train_counts(sizes: np.ndarray, train_fraction: float) -> np.ndarray:
    """(..., N): how many examples of each attribute are used for training.

    The counts are `train_fraction` of each attribute's examples, rounded by largest
    remainder so that they sum to round(train_fraction · total). Two exceptions may
    change that sum: an attribute with two or more examples keeps at least one for
    training and one for validation, and a single example is used for training. If all
    attributes have at most one example and at least two have one, the example of the
    last of them is for validation. With train_fraction = 1 all are for training.
    """
    if train_fraction == 1:
        return sizes.copy()
    ideal = train_fraction * sizes
    counts = np.floor(ideal).astype(np.int64)
    missing = np.rint(train_fraction * sizes.sum(-1)).astype(np.int64) - counts.sum(-1)
    order = np.argsort(counts - ideal, kind="stable")
    first = np.arange(sizes.shape[-1]) < missing[..., None]
    np.put_along_axis(counts, order, np.take_along_axis(counts, order, -1) + first, -1)
    at_least = np.minimum(sizes, 1)
    counts = np.clip(counts, at_least, np.maximum(sizes - 1, at_least))
    counts_held = at_least.sum(-1, keepdims=True)
    last = (at_least == 1) & (at_least.cumsum(-1) == counts_held)
    return counts - (last & (counts_held > 1) & (sizes <= 1).all(-1, keepdims=True))


def least_units(train_fraction: float) -> int:
    """The fewest examples of a client, or persons: one to train on; one to validate."""
    return 1 + (train_fraction < 1)


def least_examples(dataset: str, batch_size: int, train_fraction: float) -> int:
    """The fewest examples with which a writer becomes a client.

    They fill one batch with their training part. In a table of one's own,
    `least_units` suffice.
    """
    if dataset == "csv":
        return least_units(train_fraction)
    return math.ceil(batch_size / train_fraction) - 1 + least_units(train_fraction)


def _pad(rows: Sequence[np.ndarray]) -> tuple[Array, Array]:
    """`(padded, lengths)`: the rows as one (M, longest) int32 array, padded with 0."""
    lengths = np.array([*map(len, rows)], np.int32)
    padded = np.zeros((len(rows), int(lengths.max())), np.int32)
    for target, row in zip(padded, rows, strict=True):
        target[: len(row)] = row
    return jnp.asarray(padded), jnp.asarray(lengths)


class Division(NamedTuple):
    """A rule that divides each client's examples, whatever the other clients hold.

    So one client of a large population can be divided alone. An honest-but-curious
    client loses its private examples first (FedSVA, sec. 4.1). The papers train on the
    first 80%, and want every attribute in the validation examples, which such a cut
    does not ensure.

    `stratified` takes `train_fraction` of each attribute for training, so that both
    sides hold the same shares of every attribute. A record whose attribute changes can
    move other records to the other side and change the counts.
    `by_position` draws an order of the positions 0 to n - 1 in the client's list of n
    examples. The first round(train_fraction · n) of them are for training, at least one
    and, where n ≥ 2 and train_fraction < 1, at most n - 1. The order depends on the
    seed, the client and n; the counts depend on n alone. Where examples have persons,
    the persons are divided so, under either rule.

    Attributes:
      private: the attribute whose examples the honest-but-curious clients lose.
      curious: their ids (`partition.hbc_clients`).
      seed: >= 0.
      train_fraction: in (0, 1]; 1 leaves no validation examples.
      how: "stratified" or "by_position".
    """

    private: int
    curious: Collection[int]
    seed: int
    train_fraction: float
    how: str

    def of_client(
        self, client: int, attributes: np.ndarray, persons: np.ndarray | None = None
    ) -> Sides:
        """The positions of a client's examples as `(train, validation)`.

        Args:
          client: its number.
          attributes: (n,) of its examples.
          persons: (n,) whose they are; None: each is divided by itself.

        Raises:
          ValueError: the client has fewer examples or persons than `least_units`.
        """
        positions, curious = np.arange(len(attributes)), client in self.curious
        if curious:
            positions = positions[attributes != self.private]
        rng = generator(self.seed, Draw.TRAIN_VALIDATION, client)
        units = positions if persons is None else np.unique(persons[positions])
        shuffled = rng.permutation(units)
        by_position = self.how == "by_position" or persons is not None
        ids = np.zeros(len(shuffled), int) if by_position else attributes[shuffled]
        _, codes, counts = np.unique(ids, return_inverse=True, return_counts=True)
        trains = np.zeros(len(shuffled), bool)
        for code, quota in enumerate(_train_counts(counts, self.train_fraction)):
            trains[np.flatnonzero(codes == code)[:quota]] = True
        train, validation = shuffled[trains], shuffled[~trains]
        if persons is not None:
            trains = np.isin(persons[positions], train)
            train, validation = positions[trains], positions[~trains]
        if len(units) < (least := least_units(self.train_fraction)):
            lacking = "private examples removed, " if curious else ""
            raise ValueError(
                f"client {client} holds {len(positions)} examples ({lacking}"
                f"train_fraction {self.train_fraction:g}); every client needs at least "
                f"{least}{'' if persons is None else ', of as many persons'}: use "
                "fewer clients or another --partition"
            )
        return train, validation

    def counts(
        self, sizes: np.ndarray, attributes_of: Callable[[int], np.ndarray]
    ) -> Sides:
        """`(train, validation)`: examples by client and attribute, (M, N).

        Args:
          sizes: (M, N) the examples that each client was dealt, by attribute.
          attributes_of: the attributes of a client's examples.

        Raises:
          ValueError: as `of_client`.
        """
        sizes = sizes.copy()
        sizes[list(self.curious), self.private] = 0
        train = _train_counts(sizes, self.train_fraction)
        if self.how == "by_position":  # the draw decides, but where all are of one
            for client in np.flatnonzero((sizes > 0).sum(1) > 1).tolist():
                attributes = attributes_of(client)
                chosen, _ = self.of_client(client, attributes)
                train[client] = np.bincount(
                    attributes[chosen], minlength=sizes.shape[1]
                )
        validation = sizes - train
        lacking = sizes.sum(1) < least_units(self.train_fraction)
        for client in np.flatnonzero(lacking).tolist():
            self.of_client(client, attributes_of(client))  # says what it lacks
        return train, validation

    def split(
        self,
        parts: Sequence[np.ndarray],
        attributes: np.ndarray,
        persons: np.ndarray | None = None,
    ) -> Split:
        """The training and validation examples of every client, by its indices.

        `attributes` and `persons`, (n,) int32, are those of all training examples.
        """
        divided = []
        for client, rows in enumerate(parts):
            owners = None if persons is None else persons[rows]
            places = self.of_client(client, attributes[rows], owners)
            divided.append([rows[place] for place in places])
        train, validation = zip(*divided, strict=True)
        return Split(*_pad(train), *_pad(validation))


def dealt(padded: Array, sizes: Array) -> Sides:
    """`(clients, examples)` of everything that padded rows hold, one after the other.

    Args:
      padded: (..., M, longest) indices of examples, as a `Split` has them.
      sizes: (..., M) how many of each row are no padding. The clients of several cells
        are numbered through.
    """
    rows = np.asarray(padded).reshape(sizes.size, padded.shape[-1])
    is_example = np.arange(rows.shape[1]) < np.asarray(sizes).reshape(-1, 1)
    return is_example.nonzero()[0], rows[is_example]


def attribute_counts(
    padded: Array, sizes: Array, attributes: np.ndarray, num_attributes: int
) -> np.ndarray:
    """(clients of all cells, N): the examples of padded rows by attribute."""
    clients, examples = dealt(padded, sizes)
    counts = np.zeros((sizes.size, num_attributes), int)
    np.add.at(counts, (clients, attributes[examples]), 1)
    return counts


def most_copies(split: Split, records: np.ndarray) -> int:
    """k: the most clients that hold one of the records; 1 where nobody holds any.

    Args:
      split: of one federation; no client holds a record twice.
      records: (n,) bool, which examples count.
    """
    _, train = dealt(split.train, split.num_train)
    _, validation = dealt(split.validation, split.num_validation)
    copies = np.bincount(np.append(train, validation), minlength=len(records))
    return int(copies[records].max(initial=1))


def stack_splits(splits: Sequence[Split]) -> Split:
    """The splits of S seeds as one, leaves (S, M, longest) and (S, M), padded."""

    def stacked(*leaves: Array) -> Array:
        longest = max(leaf.shape[-1] for leaf in leaves)
        no_edges = [(0, 0)] * (leaves[0].ndim - 1)
        return jnp.stack(
            [jnp.pad(x, [*no_edges, (0, longest - x.shape[-1])]) for x in leaves]
        )

    return jax.tree.map(stacked, *splits)
