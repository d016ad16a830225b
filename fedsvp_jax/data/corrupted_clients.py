"""Corrupted clients of a federation: they hold changed copies of their examples."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.data.corruption import choose, corrupt
from fedsvp_jax.structs import Array, Examples, Split


class CorruptedClients(NamedTuple):
    """The corrupted clients of one seed's federation."""

    copies: Examples  # to be appended to all clients' examples
    split: Split  # in it the corrupted clients hold the copies
    corrupted: np.ndarray  # (M,) bool


def corrupted_participants(root: Array, count: int, share: float) -> np.ndarray:
    """(count,) bool: which round(share · count) participants are corrupted.

    Args:
      root: the run's root key, which draws them.
      count: participants.
      share: in [0, 1].
    """
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
    """Corrupts the training and validation examples of a share of the clients.

    Several clients may hold the same example. A corrupted client therefore gets changed
    copies of its examples, and the examples themselves stay as they are.

    Args:
      examples: all clients' examples.
      split: which examples each of M clients holds, in one seed's federation.
      first_copy: the index that the first copy will have among the examples.
      kind: of the corruption, as `corruption.corrupt` takes it.
      num_classes: classes of the data set.
      share_of_clients: share of the clients that are corrupted, in [0, 1].
      share_of_points: share of a corrupted client's examples, in [0, 1].
      root: the run's root key.
    """
    train, validation = np.array(split.train), np.array(split.validation)
    num_train = np.asarray(split.num_train)
    num_validation = np.asarray(split.num_validation)
    corrupted = corrupted_participants(root, len(train), share_of_clients)
    longest = int((num_train + num_validation).max())
    copies: list[Examples] = []
    for client in np.flatnonzero(corrupted):
        trains, validates = num_train[client], num_validation[client]
        held = np.concatenate([train[client][:trains], validation[client][:validates]])
        padded = np.pad(held, (0, longest - len(held)))
        changed = corrupt(
            examples.inputs[padded],
            examples.labels[padded],
            len(held),
            kind=kind,
            num_classes=num_classes,
            share=share_of_points,
            key=prng.stream_key(root, prng.Stream.CORRUPTION, int(client)),
        )
        copies.append(
            Examples(
                inputs=changed.inputs[: len(held)],
                labels=changed.labels[: len(held)],
                attributes=examples.attributes[held],
            )
        )
        indices = first_copy + np.arange(len(held), dtype=np.int32)
        train[client][:trains], validation[client][:validates] = np.split(
            indices, [trains]
        )
        first_copy += len(held)
    none = jax.tree.map(lambda leaf: leaf[:0], examples)
    return CorruptedClients(
        jax.tree.map(lambda *leaves: jnp.concatenate(leaves), none, *copies),
        dataclasses.replace(
            split, train=jnp.asarray(train), validation=jnp.asarray(validation)
        ),
        corrupted,
    )
