"""The compiled steps are those of the formula, with gradients made one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.data_value import networks
from experiments.decisive import compiled, small_models
from fedsvp_jax.structs import Array

Weights = list[Array]
INPUTS, CLASSES, RECORDS = 5, 3, 10


def logits(weights: Weights, inputs: Array | np.ndarray) -> Array:
    hidden = jax.nn.relu(inputs @ weights[0] + weights[1][None])
    return hidden @ weights[2] + weights[3][None]


def loss(weights: Weights, one: Array, label: Array) -> Array:
    return -jax.nn.log_softmax(logits(weights, one[None])[0])[label]


def first_weights(key: Array) -> Weights:
    first, last = jax.random.split(key)
    return [
        np.sqrt(2 / INPUTS) * jax.random.normal(first, (INPUTS, compiled.HIDDEN)),
        jnp.zeros(compiled.HIDDEN),
        np.sqrt(2 / compiled.HIDDEN)
        * jax.random.normal(last, (compiled.HIDDEN, CLASSES)),
        jnp.zeros(CLASSES),
    ]


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(RECORDS, INPUTS)).astype(np.float32)
    labels = rng.integers(CLASSES, size=RECORDS).astype(np.int32)
    return inputs, labels, rng.random((16, RECORDS)) < 0.5


def trained(
    weights: Weights,
    data: tuple[np.ndarray, np.ndarray],
    scale: np.ndarray,
    clip: float,
    noise: list[list[Array]] | None,
    average: float,
) -> Weights:
    velocity = [jnp.zeros_like(part) for part in weights]
    by_record = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))
    for step in range(compiled.STEPS):
        gradients = by_record(weights, *data)
        norms = jnp.sqrt(
            sum(jnp.sum(part.reshape(RECORDS, -1) ** 2, 1) for part in gradients)
        )
        factors = scale * (jnp.minimum(1, clip / norms) if clip else 1)
        total = [jnp.tensordot(factors, part, 1) for part in gradients]
        if noise is not None:
            total = [a + b for a, b in zip(total, noise[step], strict=True)]
        velocity = [0.9 * v + average * g for v, g in zip(velocity, total, strict=True)]
        weights = [w - 0.1 * v for w, v in zip(weights, velocity, strict=True)]
    return weights


@pytest.mark.parametrize("sigma", [0.0, 2.0])
def test_noisy_networks(sigma: float) -> None:
    inputs, labels, member = drawn(0)
    factors = np.linspace(0.5, 1.5, 2 * RECORDS).reshape(2, RECORDS)
    keys = jax.random.split(jax.random.key(0), 16)
    fast = next(
        networks.outputs(
            keys,
            member,
            (inputs, labels, factors.astype(np.float32)),
            inputs,
            sigma=np.asarray([sigma, sigma]),
            num_classes=CLASSES,
        )
    )
    first, of_noise = jax.random.split(keys[0])
    start = first_weights(first)
    noise = [
        [
            sigma * jax.random.normal(key, part.shape)
            for key, part in zip(
                jax.random.split(jax.random.fold_in(of_noise, step), 4),
                start,
                strict=True,
            )
        ]
        for step in range(compiled.STEPS)
    ]
    for lane in (0, 1):
        scale = factors[lane] * member[0]
        slow = trained(start, (inputs, labels), scale, 1.0, noise, 2 / RECORDS)
        np.testing.assert_allclose(fast[lane], logits(slow, inputs), atol=2e-4)


def test_networks_of_coalitions() -> None:
    inputs, labels, member = drawn(1)
    member[1] = False
    keys = jax.random.split(jax.random.key(1), 16)
    fast = small_models.outputs(
        keys, member, inputs, labels, inputs, num_classes=CLASSES
    )
    for k in (0, 1):
        share = member[k] / max(member[k].sum(), 1)
        slow = trained(first_weights(keys[k]), (inputs, labels), share, 0, None, 1.0)
        np.testing.assert_allclose(fast[k], logits(slow, inputs), atol=2e-4)
