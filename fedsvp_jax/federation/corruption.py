"""Clients whose labels are wrong: in which way, and in a simulated federation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, Examples, Split, iota
from fedsvp_jax.influence.settings import CorruptionSettings
from fedsvp_jax.round.local_training import shuffled

# (labels, num_classes, key) -> the wrong labels.
CORRUPTIONS: dict[str, Callable[[Array, int, Array], Array]] = {
    # Drawn from all classes, also the own one (the paper).
    "random_labels": lambda labels, num_classes, key: jax.random.randint(
        key, labels.shape, 0, num_classes
    ),
    # The next class, as in Co-teaching (arXiv 1804.06872).
    "flipped_pairs": lambda labels, num_classes, key: (labels + 1) % num_classes,
    # One class, drawn once per participant.
    "one_class": lambda labels, num_classes, key: jnp.broadcast_to(
        jax.random.randint(key, (), 0, num_classes), labels.shape
    ),
}


def choose(key: Array, count: Array | int, size: int, share: float) -> Array:
    """(size,) bool: true for round(share · count) of the first `count` places, drawn.

    Args:
      key: draws the places.
      count: places to choose from, at most `size`; may be traced.
      size: length of the result.
      share: in [0, 1].
    """
    rank = jnp.argsort(shuffled(key, iota(size) < count))
    return rank.astype(jnp.float32) < jnp.round(share * jnp.float32(count))


def corrupt(
    labels: Array,
    count: Array | int,
    settings: CorruptionSettings,
    num_classes: int,
    key: Array,
) -> Array:
    """(n,) int32: one participant's labels, of which a share is corrupted.

    Args:
      labels: (n,) int32.
      count: examples that the participant holds; the rest is padding.
      settings: the kind, one of `CORRUPTIONS`, and the share of the examples;
        round(share · count) are chosen.
      num_classes: classes of the data set.
      key: the participant's key for `Stream.CORRUPTION`.
    """
    which, how = jax.random.split(key)
    changed = choose(which, count, len(labels), settings.corrupted_points)
    wrong = CORRUPTIONS[settings.corruption](labels, num_classes, how)
    return jnp.where(changed, wrong, labels)


def corrupt_clients(
    examples: Examples,
    split: Split,
    *,
    first_copy: int,
    settings: CorruptionSettings,
    num_classes: int,
    root: Array,
) -> tuple[Examples, Split, np.ndarray]:
    """Corrupts the training and validation examples of a share of the clients.

    Several clients may hold the same example. A corrupted client therefore gets changed
    copies of its examples, and the examples themselves stay as they are.

    Args:
      examples: all clients' examples.
      split: which examples each of M clients holds, in one seed's federation.
      first_copy: the index that the first copy will have among the examples.
      settings: what is wrong, with how many clients and how many of their examples.
      num_classes: classes of the data set.
      root: the run's root key, which draws the clients.

    Returns:
      `(copies, split, corrupted)`: what is to be appended to all clients' examples; a
      split in which the corrupted clients hold the copies; and (M,) bool, who they are.
    """
    split = jax.tree.map(np.array, split)
    number = len(split.train)
    key = prng.stream_key(root, prng.Stream.CORRUPTION, number)
    corrupted = np.asarray(choose(key, number, number, settings.corrupted_share))
    longest = int((split.num_train + split.num_validation).max())
    none = np.zeros(0, np.int32)
    copied_rows, copied_labels = [none], [none]
    for client in np.flatnonzero(corrupted):
        trained = split.train[client, : split.num_train[client]]
        validated = split.validation[client, : split.num_validation[client]]
        rows = np.concatenate([trained, validated])
        labels = corrupt(
            examples.labels[np.pad(rows, (0, longest - len(rows)))],
            len(rows),
            settings,
            num_classes,
            prng.stream_key(root, prng.Stream.CORRUPTION, int(client)),
        )
        copied_rows.append(rows)
        copied_labels.append(np.asarray(labels[: len(rows)]))
        indices = first_copy + np.arange(len(rows), dtype=np.int32)
        trained[:], validated[:] = np.split(indices, [len(trained)])
        first_copy += len(rows)
    every = np.concatenate(copied_rows)
    wrong = jnp.asarray(np.concatenate(copied_labels))
    return (
        Examples(examples.inputs[every], wrong, examples.attributes[every]),
        jax.tree.map(jnp.asarray, split),
        corrupted,
    )
