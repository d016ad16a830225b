"""Corrupted clients of a federation: their rows point to changed copies."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.data.corruption import choose, corrupt
from fedsvp_jax.structs import Array, Examples, Split


class CorruptedClients(NamedTuple):
    """The corrupted clients of one seed's federation."""

    copies: Examples  # to be appended to the examples
    split: Split  # the corrupted clients' rows point into the copies
    corrupted: np.ndarray  # (M,) bool


def corrupted_participants(root: Array, count: int, share: float) -> np.ndarray:
    """(count,) bool: round(share · count) of the participants, by the run's seed."""
    if share == 0:
        return np.zeros(count, bool)
    key = prng.stream_key(root, prng.Stream.CORRUPTION, count)
    return np.asarray(choose(key, count, count, share))


def corrupt_clients(
    examples: Examples,
    split: Split,
    *,
    first_copy: int,
    kind: str,
    num_classes: int,
    share_of_clients: float,
    share_of_points: float,
    root: Array,
) -> CorruptedClients:
    """Corrupts training and validation examples of a share of the clients.

    Clients may hold the same rows, so a corrupted client gets copies of its own.

    Args:
      examples: all clients'.
      split: one seed's, of M clients.
      first_copy: the row that the first copy will have.
      kind, num_classes, share_of_points: as `corruption.corrupt` takes them.
      share_of_clients: in [0, 1].
      root: the run's root key.
    """
    train, validation = np.array(split.train), np.array(split.validation)
    num_train = np.asarray(split.num_train)
    num_validation = np.asarray(split.num_validation)
    bad = corrupted_participants(root, len(train), share_of_clients)
    longest = int((num_train + num_validation).max())
    parts: list[Examples] = []
    for client in np.flatnonzero(bad):
        trains, validates = num_train[client], num_validation[client]
        own = np.concatenate([train[client][:trains], validation[client][:validates]])
        rows = np.pad(own, (0, longest - len(own)))
        made = corrupt(
            examples.inputs[rows],
            examples.labels[rows],
            len(own),
            kind=kind,
            num_classes=num_classes,
            share=share_of_points,
            key=prng.stream_key(root, prng.Stream.CORRUPTION, int(client)),
        )
        parts.append(
            Examples(
                inputs=made.inputs[: len(own)],
                labels=made.labels[: len(own)],
                attributes=examples.attributes[own],
            )
        )
        places = first_copy + np.arange(len(own), dtype=np.int32)
        train[client][:trains], validation[client][:validates] = np.split(
            places, [trains]
        )
        first_copy += len(own)
    none = jax.tree.map(lambda leaf: leaf[:0], examples)
    copies = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), none, *parts)
    return CorruptedClients(
        copies,
        Split(
            train=jnp.asarray(train),
            num_train=split.num_train,
            validation=jnp.asarray(validation),
            num_validation=split.num_validation,
        ),
        bad,
    )
