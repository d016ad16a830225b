"""Neighbours: how far one record moves an upload beyond a bound that is not claimed.

That no record moves it beyond one that is claimed is looked for in whole rounds
(`tests/round/test_replay_of_neighbours.py`).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from published import published

from fedsvp_jax.core.structs import Array
from fedsvp_jax.mechanisms import clipping, noise

# The published set-up: C = 20, η = 0.1, E = 2, B = 50, |D| = 2000, 2C/|D| = 0.02.
CLIP, RATE, EXAMPLES = 20.0, 0.1, 2000
RNG = np.random.default_rng(5)
STEPS = np.stack([RNG.permutation(EXAMPLES) for _ in range(2)]).reshape(-1, 50)
Loss = Callable[[Array, Array, Array], Array]  # one example's


def pushed(w: Array, x: Array, y: Array) -> Array:
    """A linear loss: each record pulls with a force of its own."""
    return -y * jnp.sum(w * x)


def saddle(w: Array, x: Array, y: Array) -> Array:
    """A net of two weights, u·v: records push along it, one along u + v."""
    return -x[0] * w[0] * w[1] - y * jnp.sum(w)


def update(loss: Loss, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of plain SGD from 0, the batch's mean gradient clipped as published."""

    @jax.jit
    def trained(x: Array, y: Array) -> Array:
        def mean_loss(w: Array, rows: Array) -> Array:
            return jnp.mean(jax.vmap(loss, (None, 0, 0))(w, x[rows], y[rows]))

        def step(w: Array, rows: Array) -> tuple[Array, None]:
            gradient = jax.grad(mean_loss)(w, rows)
            return w - RATE * noise.clip_by_l2_norm(gradient, CLIP)[0], None

        return jax.lax.scan(step, jnp.zeros(2), STEPS)[0]

    return np.asarray(trained(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)))


def excess(loss: Loss, ordinary: float, record: float, pull: float) -> float:
    """‖upload − upload′‖ over 2C/|D| when record 0's target changes its sign."""
    x, y = np.zeros((EXAMPLES, 2)), np.zeros(EXAMPLES)
    x[:, 0], x[0, 0], y[0] = ordinary, record, pull
    gap = update(loss, x, y) - update(loss, x, -y)
    return float(np.linalg.norm(gap) / clipping.record_bound(CLIP, EXAMPLES))


def test_one_record_exceeds_the_papers_bound_400_times_on_a_linear_loss():
    """Its clipped step ±ηC comes once an epoch: η·E·|D| = 400 times 2C/|D|."""
    np.testing.assert_allclose(excess(pushed, 0.0, 1e4, 1.0), 400, rtol=1e-4)


def test_one_record_exceeds_the_papers_bound_12000_times_where_it_picks_a_side():
    """All later steps go its way: 60 of 80 here, 16000 times if it comes first."""
    np.testing.assert_allclose(excess(saddle, 1e3, 1e3, 1e4), 12_000, rtol=1e-3)


def test_adding_a_record_can_move_an_update_by_more_than_s():
    """Why S alone is claimed for adding a *client* only, and 2S for a record."""
    rule = clipping.make_clipping(published(clipping="update_clip"))
    x, y = np.full((EXAMPLES, 2), 1e3), np.zeros(EXAMPLES)
    y[STEPS[5, 0]] = -1e4  # picks the side, unless the other one does so first
    without = update(saddle, x, y)
    y[STEPS[0, 0]] = 1e4
    uploads = [
        rule.clip(one, jnp.zeros(2))[0] for one in (without, update(saddle, x, y))
    ]
    gap = np.linalg.norm(uploads[0] - uploads[1])
    assert CLIP * 1.5 < gap <= 2 * CLIP * (1 + 1e-5)
