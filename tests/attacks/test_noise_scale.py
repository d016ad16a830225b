"""The noise tells R under the published mechanism, and nothing under the rigorous."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import published

from fedsvp_jax import mechanisms
from fedsvp_jax.attacks import noise_scale
from fedsvp_jax.core.structs import Array
from fedsvp_jax.mechanisms import MechanismConfig

SIZE, EXAMPLES = 400_000, 2000
PUBLIC = {"epsilon": 0.5, "delta": 0.1, "sensitivity": 2 * 20.0 / EXAMPLES}
CONFIG = published(epsilon=0.5, delta=0.1, l2_norm_clip=20.0, release_epsilon=0.1)
BROADCAST = {"w": jnp.linspace(-1.0, 1.0, SIZE)}
UPDATE = {"w": jnp.full((SIZE,), 1 / math.sqrt(SIZE))}


def recovered(config: MechanismConfig, ratio: Array, key: Array) -> tuple[Array, ...]:
    """What one client's noised model reveals; its own update has length 1."""
    noise_key, release_key = jax.random.split(key)
    mechanism = mechanisms.make_mechanism("fedsva", config)
    told = mechanisms.release_contribution(ratio, config, key=release_key)
    noised, _, _ = mechanism.update(
        UPDATE,
        mechanism.init(1),
        key=noise_key,
        num_examples=jnp.int32(EXAMPLES),
        contribution_ratio=told,
        round_num=jnp.int32(0),
        params=BROADCAST,
    )
    upload = jax.tree.map(jnp.add, BROADCAST, noised)
    return noise_scale.recover_contribution_ratio(upload, BROADCAST, **PUBLIC)


def mean_error(release: str) -> float:
    """Of |R̂ − R| over 24 clients with R spread over [0, 1]."""
    config = dataclasses.replace(CONFIG, contribution_release=release)
    ratios, keys = jnp.linspace(0.0, 1.0, 24), jax.random.split(jax.random.key(0), 24)
    seen = jax.lax.map(lambda x: recovered(config, *x)[1], (ratios, keys))
    return float(jnp.mean(jnp.abs(seen - ratios)))


def test_the_relative_error_of_the_std_is_one_over_sqrt_2d():
    std, size, trials = 0.3, 5000, 400
    keys = jax.random.split(jax.random.key(1), trials)
    found = jax.vmap(
        lambda key: noise_scale.estimate_noise_std(
            std * jax.random.normal(key, (size,)), jnp.zeros((size,))
        )
    )(keys)
    expected = 1 / math.sqrt(2 * size)
    np.testing.assert_allclose(np.std(found / std - 1), expected, rtol=0.1)
    assert abs(np.mean(found / std - 1)) < 3 * expected / math.sqrt(trials)


def test_a_guess_of_the_update_takes_its_bias_away():
    noise = 0.1 * jax.random.normal(jax.random.key(2), (2000,))
    update, zeros = jnp.full((2000,), 0.1), jnp.zeros((2000,))
    blind = noise_scale.estimate_noise_std(update + noise, zeros)
    guided = noise_scale.estimate_noise_std(update + noise, zeros, update)
    assert abs(guided - 0.1) < 0.01 < abs(blind - 0.1)


def test_one_upload_of_the_papers_mechanism_tells_r():
    tolerance = 1 - 2 * math.log(0.1)
    assert mean_error("raw") < tolerance * math.sqrt(2 / SIZE)
    keys = jax.random.split(jax.random.key(3), 30)
    found = jax.lax.map(lambda key: recovered(CONFIG, jnp.float32(0.5), key), keys)
    np.testing.assert_allclose(np.std(found[1]), found[2][0], rtol=0.5)


@pytest.mark.parametrize("release", ["worst_case", "laplace", "randomized_response"])
def test_a_rigorous_release_leaves_the_attacker_with_a_guess(release: str):
    """To say 1/2 for everyone errs by 1/4 on average; nothing here beats it."""
    assert mean_error(release) > 0.25


@pytest.mark.parametrize(
    ("field", "value"), [("epsilon", 0.0), ("sensitivity", -1.0), ("delta", 1.0)]
)
def test_bad_public_numbers_are_refused(field: str, value: float):
    with pytest.raises(ValueError, match=field):
        noise_scale.recover_contribution_ratio({}, {}, **PUBLIC | {field: value})
