"""Neighbours: a search for violations, and how far `paper` can be exceeded.

Each search trains a small net on neighbouring data sets with real local SGD, the
replaced record drawn over many orders of magnitude, and compares the uploads.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from published import published

from fedsvp_jax.mechanisms import sensitivity
from fedsvp_jax.structs import Array, Params

pytestmark = pytest.mark.across("sensitivities against neighbouring data sets")

EXAMPLES, BATCH, EPOCHS, FEATURES = 20, 5, 2, 3
Loss = Callable[[Params, Array, Array], Array]  # one example's


class Records(NamedTuple):
    x: Array  # (n, features)
    y: Array  # (n,)


def linear(params: Params, x: Array, y: Array) -> Array:
    return jnp.square(x @ params["w"] + params["b"] - y)


def mlp(params: Params, x: Array, y: Array) -> Array:
    return jnp.square(jnp.tanh(x @ params["v"]) @ params["w"] + params["b"] - y)


LINEAR = {"w": np.asarray([0.5, -0.3, 0.1], np.float32), "b": np.float32(0.2)}
MLP = {
    "v": np.random.default_rng(8).normal(size=(FEATURES, 4)).astype(np.float32),
    "w": np.asarray([0.5, -0.3, 0.1, 0.4], np.float32),
    "b": np.float32(0.2),
}
NETS = pytest.mark.parametrize(("loss", "params"), [(linear, LINEAR), (mlp, MLP)])


def clipped(tree: Params, bound: float) -> Params:
    scale = jnp.minimum(1.0, bound / jnp.maximum(optax.tree.norm(tree), 1e-30))
    return jax.tree.map(lambda leaf: leaf * scale, tree)


def batches(seed: int, examples: int, batch: int, epochs: int) -> np.ndarray:
    """(steps, batch) indices: a shuffle of every epoch, whatever the data."""
    rng = np.random.default_rng(seed)
    orders = np.stack([rng.permutation(examples) for _ in range(epochs)])
    return orders[:, : examples // batch * batch].reshape(-1, batch)


def mean_gradient(loss: Loss, params: Params, data: Records, clip: float) -> Params:
    """The batch-mean gradient, clipped to C as the published code does."""

    def mean_loss(params: Params) -> Array:
        return jnp.mean(jax.vmap(loss, (None, 0, 0))(params, data.x, data.y))

    return clipped(jax.grad(mean_loss)(params), clip)


def per_example_mean(
    loss: Loss, params: Params, data: Records, clip: float, kept: Array
) -> Params:
    """The batch mean of gradients clipped one by one, 0 where not `kept`."""
    grads = jax.vmap(jax.grad(loss), (None, 0, 0))(params, data.x, data.y)
    cut = jax.vmap(lambda grad: clipped(grad, clip))(grads)
    weights = kept.astype(jnp.float32) / len(kept)
    return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, axes=1), cut)


def local_sgd(
    loss: Loss, params: Params, data: Records, steps: Array, clip: float, rate: float
) -> Params:
    """The update (client minus server) of plain SGD with the published clip."""

    def step(now: Params, rows: Array) -> tuple[Params, None]:
        batch = Records(data.x[rows], data.y[rows])
        grad = mean_gradient(loss, now, batch, clip)
        return jax.tree.map(lambda w, g: w - rate * g, now, grad), None

    trained, _ = jax.lax.scan(step, params, steps)
    return jax.tree.map(jnp.subtract, trained, params)


class Pair(NamedTuple):
    """Data sets that differ in record 0, of any size up to 1e4, and their batches."""

    one: Records
    other: Records
    steps: Array  # (steps, batch)
    seed: Array  # of noise


def neighbours(seed: int) -> Pair:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((EXAMPLES, FEATURES)).astype(np.float32)
    y = np.sign(rng.standard_normal(EXAMPLES)).astype(np.float32)
    scale = 10.0 ** rng.uniform(-1, 4)
    x[0], y[0] = scale * rng.standard_normal(FEATURES), scale * rng.standard_normal()
    mirrored = y.copy()
    mirrored[0] = -y[0]
    steps = batches(seed, EXAMPLES, BATCH, EPOCHS)
    return Pair(Records(x, y), Records(x, mirrored), steps, np.int32(seed))


@cache
def all_neighbours() -> Pair:
    """(300, ...)."""
    return jax.tree.map(lambda *x: np.stack(x), *map(neighbours, range(300)))


def farthest(distance: Callable[[Pair], Array]) -> float:
    found = np.asarray(jax.jit(jax.vmap(distance))(all_neighbours()))
    assert np.all(np.isfinite(found))
    return float(found.max())


def upload_distance(
    loss: Loss, params: Params, rule: sensitivity.Sensitivity
) -> Callable[[Pair], Array]:
    def distance(pair: Pair) -> Array:
        uploads = [
            rule.clip(local_sgd(loss, params, data, pair.steps, 50.0, 0.3), params)[0]
            for data in (pair.one, pair.other)
        ]
        return optax.tree.norm(jax.tree.map(jnp.subtract, *uploads))

    return distance


@NETS
@pytest.mark.parametrize("choice", ["update_clip", "weight_clip"])
def test_no_neighbour_leaves_the_bound_of_a_clipped_upload(
    loss: Loss, params: Params, choice: str
):
    config = published(l2_norm_clip=2.0, sensitivity=choice)
    rule = sensitivity.make_sensitivity(config)
    bound = float(rule.bound(jnp.int32(EXAMPLES)))
    assert bound == 4.0
    found = farthest(upload_distance(loss, params, rule))
    assert 0.75 * bound < found <= bound * (1 + 1e-5)  # the search is a sharp one


def test_a_client_against_none_stays_within_s():
    config = published(
        l2_norm_clip=0.5, sensitivity="update_clip", relation="add_remove"
    )
    rule = sensitivity.make_sensitivity(config)
    assert rule.bound(jnp.int32(EXAMPLES)) == 0.5

    def distance(pair: Pair) -> Array:
        update = local_sgd(mlp, MLP, pair.one, pair.steps, 50.0, 0.3)
        return optax.tree.norm(rule.clip(update, MLP)[0])

    assert 0.45 < farthest(distance) <= 0.5 * (1 + 1e-5)


def test_adding_a_record_can_move_an_update_by_more_than_s():
    """Why S alone is claimed for adding a *client* only, and 2S for a record."""
    config = published(l2_norm_clip=0.5, sensitivity="update_clip")
    rule = sensitivity.make_sensitivity(config)

    def distance(pair: Pair) -> Array:
        fewer = jnp.where(pair.steps == 0, 1, pair.steps)  # the added record's places
        uploads = [
            rule.clip(local_sgd(mlp, MLP, pair.one, steps, 50.0, 0.3), MLP)[0]
            for steps in (pair.steps, fewer)
        ]
        return optax.tree.norm(jax.tree.map(jnp.subtract, *uploads))

    assert 0.5 * 1.5 < farthest(distance) <= 1.0 * (1 + 1e-5)


@pytest.mark.parametrize(("relation", "most"), [("replace_one", 2), ("add_remove", 1)])
@NETS
def test_no_neighbour_leaves_the_per_example_bound(
    loss: Loss, params: Params, relation: str, most: float
):
    """Along one noised history, as adaptive composition asks: same steps, same w."""
    clip, rate = 0.7, 0.3
    config = published(
        l2_norm_clip=clip,
        local_epochs=EPOCHS,
        batch_size=BATCH,
        sensitivity="per_example",
        relation=relation,
    )
    rule = sensitivity.make_sensitivity(config)
    bound = float(rule.bound(jnp.int32(EXAMPLES)))
    np.testing.assert_allclose(
        bound, math.sqrt(EPOCHS) * most * clip / BATCH, rtol=1e-6
    )

    def distance(pair: Pair) -> Array:
        def step(carry: tuple[Params, Array], rows: Array):
            now, noise_key = carry
            noise_key, use = jax.random.split(noise_key)
            left_out = rows == 0 if relation == "add_remove" else rows < 0
            grad, moved = (
                per_example_mean(loss, now, Records(d.x[rows], d.y[rows]), clip, kept)
                for d, kept in ((pair.one, rows >= 0), (pair.other, ~left_out))
            )
            gap = jnp.square(optax.tree.norm(jax.tree.map(jnp.subtract, grad, moved)))
            after = jax.tree.map(
                lambda w, g: w - rate * (g + 0.3 * jax.random.normal(use, g.shape)),
                now,
                grad,
            )
            return (after, noise_key), gap

        _, gaps = jax.lax.scan(step, (params, jax.random.key(pair.seed)), pair.steps)
        return jnp.sqrt(jnp.sum(gaps))

    assert 0.9 * bound < farthest(distance) <= bound * (1 + 1e-5)


# The published set-up: C = 20, η = 0.1, E = 2, B = 50, |D| = 2000, 2C/|D| = 0.02.
PUBLISHED = {"clip": 20.0, "rate": 0.1}


def pushed(params: Params, x: Array, y: Array) -> Array:
    """A linear loss: each record pulls with a force of its own."""
    return -y * jnp.sum(params["w"] * x)


def saddle(params: Params, x: Array, y: Array) -> Array:
    """A net of two weights, u·v: records push along it, one along u + v."""
    u, v = params["w"]
    return -x[0] * u * v - y * (u + v)


def published_excess(
    loss: Loss, ordinary: list[float], record: list[float], pull: float
) -> float:
    """‖upload − upload′‖ over 2C/|D| when one record's target changes its sign."""
    steps = batches(5, 2000, 50, 2)
    x = np.tile(ordinary, (2000, 1)).astype(np.float32)
    x[0] = record
    start = {"w": np.zeros(2, np.float32)}

    @jax.jit
    def upload_of(target: Array) -> Array:
        y = jnp.zeros((2000,)).at[0].set(target)
        data = Records(jnp.asarray(x), y)
        return local_sgd(loss, start, data, steps, **PUBLISHED)["w"]

    gap = upload_of(jnp.float32(pull)) - upload_of(jnp.float32(-pull))
    bound = sensitivity.published_bound(20.0, 2000)
    return float(np.linalg.norm(gap) / bound)


def test_one_record_exceeds_the_papers_bound_400_times_on_a_linear_loss():
    """Its clipped step ±ηC comes once an epoch: η·E·|D| = 400 times 2C/|D|."""
    excess = published_excess(pushed, [0.0, 0.0], [1e4, 0.0], 1.0)
    np.testing.assert_allclose(excess, 400, rtol=1e-4)


def test_one_record_exceeds_the_papers_bound_12000_times_where_it_picks_a_side():
    """All later steps go its way: 60 of 80 here, 16000 times if it comes first."""
    ordinary = [1e3, 0.0]
    excess = published_excess(saddle, ordinary, ordinary, 1e4)
    np.testing.assert_allclose(excess, 12_000, rtol=1e-3)
