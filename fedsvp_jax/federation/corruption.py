"""Clients whose data are bad: in which way, and in a federation that is simulated."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, Examples, Split
from fedsvp_jax.influence.settings import CorruptionSettings

_NOISE_STD = 1.0  # in units of half a pixel's range, or of the features' own std
_OCCLUDED = 0.75  # side of the grey square divided by the image's side


class Corrupted(NamedTuple):
    """A participant's examples after the corruption."""

    inputs: Array  # (n, *example_shape), of the dtype that they had
    labels: Array  # (n,) int32
    changed: Array  # (n,) bool: examples that were chosen to be corrupted


def choose(key: Array, count: Array | int, size: int, share: float) -> Array:
    """(size,) bool: true for round(share · count) of the first `count` places, drawn.

    Args:
      key: draws the places.
      count: places to choose from, at most `size`; may be traced.
      size: length of the result.
      share: in [0, 1].
    """
    places = jnp.arange(size, dtype=jnp.int32)
    in_range = places < count
    bits = jax.random.bits(key, (size,), jnp.uint32) >> jnp.uint32(1)
    order = jnp.argsort(jnp.where(in_range, bits, jnp.uint32(0xFFFFFFFF)))
    rank = jnp.argsort(order)
    num_chosen = jnp.round(share * jnp.asarray(count, jnp.float32))
    return rank.astype(jnp.float32) < num_chosen


def corrupt(
    inputs: Array,
    labels: Array,
    count: Array | int,
    *,
    kind: str,
    num_classes: int,
    share: float,
    key: Array,
) -> Corrupted:
    """Corrupts a share of one participant's examples.

    | kind | what becomes of a chosen example |
    |---|---|
    | `random_labels` | its label is drawn from all classes, also its own (the paper) |
    | `flipped_pairs` | its label y becomes y + 1 (modulo the number of classes) |
    | `noisy_images` | Gaussian noise is added, with a std of half a pixel's range |
    | `occluded_images` | a grey square of 3/4 of each side, anywhere in the image |
    | `one_class` | its label becomes that of one class, drawn once per participant |

    Args:
      inputs: (n, *example_shape) uint8 or float32.
      labels: (n,) int32.
      count: examples that the participant holds; the rest is padding.
      kind: one of `CORRUPTIONS`.
      num_classes: classes of the data set.
      share: share of the examples, in [0, 1]; round(share · count) are chosen.
      key: the participant's key for `Stream.CORRUPTION`.

    Raises:
      ValueError: the kind is unknown, the share is out of its range, or the inputs of
        `occluded_images` are not images.
    """
    if kind not in CORRUPTIONS:
        raise ValueError(
            f"corruption must be one of {', '.join(CORRUPTIONS)}, got {kind!r}"
        )
    if not 0 <= share <= 1:
        raise ValueError(f"corrupted_points must be in [0, 1], got {share}")
    which, how = jax.random.split(key)
    changed = choose(which, count, labels.shape[0], share)
    bad_inputs, bad_labels = CORRUPTIONS[kind](inputs, labels, num_classes, how)
    shape = (-1,) + (1,) * (inputs.ndim - 1)
    return Corrupted(
        inputs=jnp.where(changed.reshape(shape), bad_inputs, inputs),
        labels=jnp.where(changed, bad_labels, labels),
        changed=changed,
    )


def _random_labels(
    inputs: Array, labels: Array, num_classes: int, key: Array
) -> tuple[Array, Array]:
    return inputs, jax.random.randint(key, labels.shape, 0, num_classes, jnp.int32)


def _flipped_pairs(
    inputs: Array, labels: Array, num_classes: int, key: Array
) -> tuple[Array, Array]:
    """Pair flipping as in Co-teaching (arXiv 1804.06872)."""
    return inputs, (labels + 1) % num_classes


def _noisy_images(
    inputs: Array, labels: Array, num_classes: int, key: Array
) -> tuple[Array, Array]:
    noise = _NOISE_STD * jax.random.normal(key, inputs.shape, jnp.float32)
    if inputs.dtype != jnp.uint8:
        return inputs + jnp.std(inputs) * noise, labels
    noisy = jnp.round(inputs.astype(jnp.float32) + 127.5 * noise)
    return jnp.clip(noisy, 0, 255).astype(jnp.uint8), labels


def _occluded_images(
    inputs: Array, labels: Array, num_classes: int, key: Array
) -> tuple[Array, Array]:
    if inputs.ndim != 4:
        raise ValueError(
            f"corruption=occluded_images needs images, got examples of the shape "
            f"{inputs.shape[1:]}"
        )
    covered = []
    for axis, axis_key in zip((1, 2), jax.random.split(key), strict=True):
        size = inputs.shape[axis]
        side = round(_OCCLUDED * size)
        last = size - side
        start = jax.random.randint(axis_key, labels.shape, 0, last + 1, jnp.int32)
        place = jnp.arange(size, dtype=jnp.int32)[None]
        covered.append((place >= start[:, None]) & (place < start[:, None] + side))
    square = covered[0][:, :, None, None] & covered[1][:, None, :, None]
    grey = jnp.asarray(127 if inputs.dtype == jnp.uint8 else 0, inputs.dtype)
    return jnp.where(square, grey, inputs), labels


def _one_class(
    inputs: Array, labels: Array, num_classes: int, key: Array
) -> tuple[Array, Array]:
    label = jax.random.randint(key, (), 0, num_classes, jnp.int32)
    return inputs, jnp.broadcast_to(label, labels.shape)


CORRUPTIONS: dict[str, Callable[[Array, Array, int, Array], tuple[Array, Array]]] = {
    "random_labels": _random_labels,
    "flipped_pairs": _flipped_pairs,
    "noisy_images": _noisy_images,
    "occluded_images": _occluded_images,
    "one_class": _one_class,
}


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
    settings: CorruptionSettings,
    num_classes: int,
    root: Array,
) -> CorruptedClients:
    """Corrupts the training and validation examples of a share of the clients.

    Several clients may hold the same example. A corrupted client therefore gets changed
    copies of its examples, and the examples themselves stay as they are.

    Args:
      examples: all clients' examples.
      split: which examples each of M clients holds, in one seed's federation.
      first_copy: the index that the first copy will have among the examples.
      settings: what is wrong, with how many clients and how many of their examples.
      num_classes: classes of the data set.
      root: the run's root key.
    """
    train, validation = np.array(split.train), np.array(split.validation)
    num_train = np.asarray(split.num_train)
    num_validation = np.asarray(split.num_validation)
    corrupted = corrupted_participants(root, len(train), settings.corrupted_share)
    longest = int((num_train + num_validation).max())
    copies: list[Examples] = []
    for client in np.flatnonzero(corrupted):
        trains, validates = num_train[client], num_validation[client]
        rows = np.concatenate([train[client][:trains], validation[client][:validates]])
        padded = np.pad(rows, (0, longest - len(rows)))
        changed = corrupt(
            examples.inputs[padded],
            examples.labels[padded],
            len(rows),
            kind=settings.corruption,
            num_classes=num_classes,
            share=settings.corrupted_points,
            key=prng.stream_key(root, prng.Stream.CORRUPTION, int(client)),
        )
        copies.append(
            Examples(
                inputs=changed.inputs[: len(rows)],
                labels=changed.labels[: len(rows)],
                attributes=examples.attributes[rows],
            )
        )
        indices = first_copy + np.arange(len(rows), dtype=np.int32)
        train[client][:trains], validation[client][:validates] = np.split(
            indices, [trains]
        )
        first_copy += len(rows)
    none = jax.tree.map(lambda leaf: leaf[:0], examples)
    return CorruptedClients(
        jax.tree.map(lambda *leaves: jnp.concatenate(leaves), none, *copies),
        dataclasses.replace(
            split, train=jnp.asarray(train), validation=jnp.asarray(validation)
        ),
        corrupted,
    )
