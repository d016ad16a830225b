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
from fedsvp_jax.mechanisms import MechanismConfig
from fedsvp_jax.structs import Array, Params

SIZE = 400_000
CONFIG = published(epsilon=0.5, delta=0.1, l2_norm_clip=20.0)
EXAMPLES = 2000
BROADCAST = {"w": jnp.linspace(-1.0, 1.0, SIZE)}


def upload(ratio: Array, config: MechanismConfig, key: Array) -> Params:
    """One client's noised model; its own update has length 1."""
    noise_key, release_key = jax.random.split(key)
    mechanism = mechanisms.make_mechanism("fedsva", config)
    told = mechanisms.release_contribution(ratio, config, key=release_key)
    update = {"w": jnp.full((SIZE,), 1 / math.sqrt(SIZE))}
    noised, _, _ = mechanism.update(
        update,
        mechanism.init(1),
        key=noise_key,
        num_examples=jnp.int32(EXAMPLES),
        contribution_ratio=told,
        round_num=jnp.int32(0),
        params=BROADCAST,
    )
    return jax.tree.map(jnp.add, BROADCAST, noised)


@pytest.fixture(scope="module")
def errors() -> dict[str, np.ndarray]:
    """|R̂ − R| of 24 clients with R spread over [0, 1], by way of release."""
    ratios = jnp.linspace(0.0, 1.0, 24)
    keys = jax.random.split(jax.random.key(0), 24)

    def attack(config: MechanismConfig) -> np.ndarray:
        def one(ratio: Array, key: Array) -> Array:
            seen = upload(ratio, config, key)
            return noise_scale.recover_contribution_ratio(
                seen,
                BROADCAST,
                epsilon=0.5,
                delta=0.1,
                sensitivity=2 * 20.0 / EXAMPLES,
            ).contribution_ratio

        found = jax.jit(lambda r, k: jax.lax.map(lambda x: one(*x), (r, k)))
        return np.abs(np.asarray(found(ratios, keys)) - np.asarray(ratios))

    return {
        release: attack(
            dataclasses.replace(
                CONFIG, contribution_release=release, release_epsilon=0.1
            )
        )
        for release in ("raw", "worst_case", "laplace", "randomized_response")
    }


def test_the_relative_error_of_the_std_is_one_over_sqrt_2d():
    std, size, trials = 0.3, 5000, 400
    keys = jax.random.split(jax.random.key(1), trials)
    zeros = jnp.zeros((size,))
    found = jax.vmap(
        lambda key: noise_scale.estimate_noise_std(
            std * jax.random.normal(key, (size,)), zeros
        )
    )(keys)
    expected = 1 / math.sqrt(2 * size)
    np.testing.assert_allclose(np.std(found / std - 1), expected, rtol=0.1)
    assert abs(np.mean(found / std - 1)) < 3 * expected / math.sqrt(trials)


def test_a_guess_of_the_update_takes_its_bias_away():
    noise = 0.1 * jax.random.normal(jax.random.key(2), (2000,))
    update = jnp.full((2000,), 0.1)
    blind = noise_scale.estimate_noise_std(update + noise, jnp.zeros((2000,)))
    guided = noise_scale.estimate_noise_std(update + noise, jnp.zeros((2000,)), update)
    assert abs(guided - 0.1) < 0.01 < abs(blind - 0.1)


def test_one_upload_of_the_papers_mechanism_tells_r(errors: dict[str, np.ndarray]):
    tolerance = 1 - 2 * math.log(0.1)
    assert np.mean(errors["raw"]) < tolerance * math.sqrt(2 / SIZE)


def test_the_standard_error_is_the_one_that_is_seen():
    keys = jax.random.split(jax.random.key(3), 30)
    found = jax.lax.map(
        lambda key: noise_scale.recover_contribution_ratio(
            upload(jnp.float32(0.5), CONFIG, key),
            BROADCAST,
            epsilon=0.5,
            delta=0.1,
            sensitivity=0.02,
        ),
        keys,
    )
    stated = float(found.standard_error[0])
    np.testing.assert_allclose(np.std(found.contribution_ratio), stated, rtol=0.5)


@pytest.mark.parametrize("release", ["worst_case", "laplace", "randomized_response"])
def test_a_rigorous_release_leaves_the_attacker_with_a_guess(
    release: str, errors: dict[str, np.ndarray]
):
    """To say 1/2 for everyone errs by 1/4 on average; nothing here beats it."""
    assert np.mean(errors[release]) > 0.25 > 10 * np.mean(errors["raw"])


@pytest.mark.parametrize(
    ("field", "value"), [("epsilon", 0.0), ("sensitivity", -1.0), ("delta", 1.0)]
)
def test_bad_public_numbers_are_refused(field: str, value: float):
    numbers = {"epsilon": 0.5, "delta": 0.1, "sensitivity": 0.02} | {field: value}
    with pytest.raises(ValueError, match=field):
        noise_scale.recover_contribution_ratio(
            {"w": jnp.ones((3,))}, {"w": jnp.ones((3,))}, **numbers
        )
