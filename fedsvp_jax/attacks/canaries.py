"""Canaries in the real compiled round: one training run in which ε can be measured.

A canary is a client that pushes the model along a random direction of its own, or one
record of a client that does so. The direction goes through the whole round: local
training, clipping, noise, averaging. The model is a linear classifier of the honest
clients' examples, whose loss on a canary's record is linear in the weights.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.structs import Array, Model, Params

_OFFSET = 1e6  # makes the loss linear: canaries are far in the wrong class


class Canaries(NamedTuple):
    """Random directions, and which of them take part."""

    directions: np.ndarray  # (m, d) float32 of length 1
    coins: np.ndarray  # (m,) bool: whether each takes part


def draw_canaries(num_canaries: int, dimension: int, seed: int) -> Canaries:
    """Isotropic directions and fair coins."""
    rng = np.random.default_rng((seed, prng.Stream.CANARY))
    directions = rng.normal(size=(num_canaries, dimension)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return Canaries(directions, rng.random(num_canaries) < 0.5)


def canary_model(directions: np.ndarray, num_features: int, num_classes: int) -> Model:
    """A linear classifier that canaries push along their directions.

    An example is (features, k, s). For k = 0 the logits are the features times the
    first `num_features`·`num_classes` weights. For k > 0 the first logit is
    push·s·(direction k − 1)·w − 1e6 and the others are 0, so that the gradient of the
    cross-entropy of class 0 is −s·push·(direction k − 1) to the last bit.

    Args:
      directions: (m, d), d ≥ num_features·num_classes.
      num_features, num_classes: of the honest examples.

    Raises:
      ValueError: d is too small.
    """
    dimension = directions.shape[1]
    size = num_features * num_classes
    if dimension < size:
        raise ValueError(f"dimension must be at least {size}, got {dimension}")
    rows = jnp.concatenate([jnp.zeros((1, dimension)), jnp.asarray(directions)])

    def init(key: Array, example: Array) -> tuple[Params, Params]:
        del key, example
        return {"w": jnp.zeros((dimension,), jnp.float32)}, {}

    def apply(
        params: Params, stats: Params, x: Array, *, train: bool, key: Array | None
    ) -> tuple[Array, Params]:
        del train, key
        features, number, sign = x[:, :-2], x[:, -2].astype(jnp.int32), x[:, -1]
        kernel = params["w"][:size].reshape(num_features, num_classes)
        pushed = sign * (rows @ params["w"])[number]
        first = jnp.where(number > 0, pushed - jnp.float32(_OFFSET), 0.0)
        return (features @ kernel).at[:, 0].add(first), stats

    return Model(init, apply)


class Planted(NamedTuple):
    """A data set with canaries among its clients, and what the score needs."""

    dataset: Dataset
    model: Model
    canaries: Canaries


def plant_clients(
    dataset: Dataset,
    canaries: Canaries,
    *,
    num_honest: int,
    push: float,
    records: int,
) -> Planted:
    """Every canary is a client; a client whose coin says "out" has empty records.

    Its records hold nothing but zeros then and its update is zero, the neighbour that
    "add or remove a client" means. The honest clients share the data set's examples.

    Args:
      dataset: of the honest clients.
      canaries: as many clients more.
      num_honest: clients that hold the data set's examples, in equal parts.
      push: L2 norm of the gradient of a canary's record.
      records: examples of a canary client.
    """
    features = _features(dataset.train_inputs)
    count = len(canaries.coins)
    numbers = np.where(canaries.coins, np.arange(1, count + 1), 0).repeat(records)
    honest = np.arange(len(features)) % num_honest + count
    return _with_records(
        dataset,
        canaries,
        numbers=numbers,
        signs=np.full(len(numbers), push, np.float32),
        writers=np.concatenate([np.arange(count).repeat(records), honest]),
        features=features,
    )


def plant_records(
    dataset: Dataset, canaries: Canaries, *, push: float, left_out: bool = False
) -> Planted:
    """Every client holds one canary, a record that pushes forth ("in") or back ("out").

    The two are the neighbours that "replace one record" means. The clients share the
    data set's examples. The column "record" tells canaries from them, so that the
    canaries can be the private attribute.

    Args:
      dataset: of the clients.
      canaries: one for each client.
      push: L2 norm of the gradient of a canary.
      left_out: whether a canary that is "out" has no gradient, as if it were left out.
    """
    features = _features(dataset.train_inputs)
    count = len(canaries.coins)
    return _with_records(
        dataset,
        canaries,
        numbers=np.arange(1, count + 1),
        signs=np.where(canaries.coins, push, 0.0 if left_out else -push).astype(
            np.float32
        ),
        writers=np.concatenate([np.arange(count), np.arange(len(features)) % count]),
        features=features,
    )


def _features(inputs: np.ndarray) -> np.ndarray:
    flat = inputs.reshape(len(inputs), -1).astype(np.float32)
    return flat / 255 if inputs.dtype == np.uint8 else flat


def _with_records(
    dataset: Dataset,
    canaries: Canaries,
    *,
    numbers: np.ndarray,
    signs: np.ndarray,
    writers: np.ndarray,
    features: np.ndarray,
) -> Planted:
    """The canaries' records, of class 0, before the data set's examples."""

    def rows(
        features: np.ndarray, numbers: np.ndarray, signs: np.ndarray
    ) -> np.ndarray:
        columns = [features, numbers[:, None], signs[:, None]]
        return np.concatenate(columns, axis=1).astype(np.float32)

    def plain(features: np.ndarray) -> np.ndarray:
        nobody = np.zeros(len(features), np.float32)
        return rows(features, nobody, nobody)

    empty = np.zeros((len(numbers), features.shape[1]), np.float32)
    is_canary = (np.arange(len(writers)) < len(numbers)).astype(np.int32)
    planted = dataclasses.replace(
        dataset,
        train_inputs=np.concatenate([rows(empty, numbers, signs), plain(features)]),
        train_labels=np.concatenate(
            [np.zeros(len(numbers), np.int32), dataset.train_labels]
        ),
        test_inputs=plain(_features(dataset.test_inputs)),
        train_writers=writers.astype(np.int32),
        columns={"record": Column(is_canary, ("honest", "canary"))},
    )
    model = canary_model(canaries.directions, features.shape[1], dataset.num_classes)
    return Planted(planted, model, canaries)


def cosines(directions: np.ndarray, movement: np.ndarray) -> np.ndarray:
    """(m,) between the directions, of length 1, and a movement of the weights (d,)."""
    length = float(np.linalg.norm(movement))
    return directions @ movement / length if length > 0 else np.zeros(len(directions))
