"""A record moves a step by no more than its factor allows."""

import jax
import numpy as np
import pytest

from experiments.data_value import networks


@pytest.mark.parametrize("factor", [0.6, 1.4])
def test_the_sum_moves_by_at_most_the_factor_times_the_clip(factor: float) -> None:
    rng = np.random.default_rng(0)
    inputs = 30 * rng.normal(size=(1, 5)).astype(np.float32)
    one_hot = np.eye(3, dtype=np.float32)[:1]
    weights = networks._initial(jax.random.key(0), 5, 3)
    total = networks._clipped_sum(
        weights, inputs, one_hot, np.full(1, factor, np.float32)
    )
    norm = np.sqrt(sum(float((part**2).sum()) for part in total))
    assert norm == pytest.approx(factor * networks.CLIP, rel=1e-5)


def test_the_clipped_sum_is_that_of_gradients_made_one_by_one() -> None:
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(6, 5)).astype(np.float32)
    labels = rng.integers(3, size=6)
    one_hot = np.eye(3, dtype=np.float32)[labels]
    factors = rng.uniform(0.5, 1.5, 6).astype(np.float32)
    weights = networks._initial(jax.random.key(1), 5, 3)

    def loss(weights: networks.Weights, row: int) -> jax.Array:
        logs = jax.nn.log_softmax(networks._logits(weights, inputs[row][None]))
        return -logs[0, labels[row]]

    slow = [np.zeros_like(part) for part in weights]
    for row in range(6):
        gradient = jax.grad(loss)(weights, row)
        norm = np.sqrt(sum(float((part**2).sum()) for part in gradient))
        scale = factors[row] * min(1.0, networks.CLIP / norm)
        slow = [a + scale * np.asarray(b) for a, b in zip(slow, gradient, strict=True)]
    fast = networks._clipped_sum(weights, inputs, one_hot, factors)
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
