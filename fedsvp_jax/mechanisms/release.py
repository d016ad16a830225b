"""Releasing the contribution ratio R, so that a noise scale may depend on it.

A noise scale that follows private data is a release of that data: from d noised
weights anyone reads σ, hence R, to 1/sqrt(2d) relative. R must therefore be fixed
or leave the client by a DP mechanism of its own; σ is then post-processing.

The L1 sensitivity of R, clipped to [0, 1], is 1 under every neighbouring relation.
R is a quotient of differences of accuracies of trained models: one training record
can move any of them by any amount, and even a validation record, which moves each
accuracy by at most 1/n_val, can move R from 0 to 1 when U(all) − U(∅) is itself
1/n_val. No smaller bound holds for all data sets, so none is used.
"""

import jax
import jax.numpy as jnp

from fedsvp_jax.core.structs import Array, Number

from .config import MechanismConfig


def bounded_ratio(ratio: Number) -> Array:
    """R in [0, 1], float32; 1, with which the noise is largest, where it is not finite.

    Every R passes here before noise or a release follows it (`base.chain` and
    `release_contribution`): a NaN, which no comparison notices, must not decide
    whether an upload gets noise.
    """
    value = jnp.float32(ratio)
    return jnp.where(jnp.isfinite(value), jnp.clip(value, 0.0, 1.0), jnp.float32(1))


def response_chance(ratio: Number, epsilon: Number) -> Array:
    """P(1) of a randomised response, float32, of the ratio's shape.

        P(1) = 1/(1 + e^ε) + R·(e^ε − 1)/(e^ε + 1)

    For R in [0, 1] that lies between 1/(1 + e^ε) and e^ε/(1 + e^ε), a quotient of
    e^ε for either answer: (ε, 0)-DP (Warner 1965). These ends are rounded towards 1/2,
    to `drawable` probabilities.
    """
    ratio = bounded_ratio(ratio)
    eps = jnp.float32(epsilon)
    chance = jax.nn.sigmoid(-eps) + ratio * jnp.tanh(0.5 * eps)
    lowest = drawable(jax.nn.sigmoid(-eps))
    return jnp.clip(chance, lowest, 1 - lowest)


def drawable(chance: Array) -> Array:
    """A probability of at most 1/2, float32, rounded up to a multiple of 2^-23.

    `jax.random.uniform` draws such multiples. The margin of 2^-20 is more than what a
    chance that was computed in float32 is off by.
    """
    up = jnp.ceil(chance * jnp.float32((1 + 2.0**-20) * 2.0**23)) * jnp.float32(2**-23)
    return jnp.minimum(up, jnp.float32(0.5))


def release_contribution(ratio: Array, config: MechanismConfig, *, key: Array) -> Array:
    """The R that the noise may follow, of the ratio's shape, float32.

    `config.contribution_release` names the way, of which the last two spend
    `release_epsilon` = ε each time:

        raw                  R itself: no guarantee
        worst_case           1
        laplace              clip(R + Laplace(1/ε), 0, 1): (ε, 0)-DP of real numbers, as
                             R moves by ≤ 1; the last bits of float32 tell R
        randomized_response  one bit, R rounded at random to {0, 1} and told truly with
                             probability e^ε/(1 + e^ε): one draw of `response_chance`
    """
    release, epsilon = config.contribution_release, config.release_epsilon
    if release == "worst_case":
        return jnp.ones(jnp.shape(ratio), jnp.float32)
    if release == "randomized_response":
        chance = response_chance(ratio, epsilon)
        answer = jax.random.uniform(key, chance.shape, jnp.float32) < chance
        return answer.astype(jnp.float32)
    ratio = bounded_ratio(ratio)
    if release == "raw":
        return ratio
    scale = 1.0 / jnp.float32(epsilon)
    draw = jax.random.laplace(key, ratio.shape, jnp.float32)
    return jnp.clip(ratio + scale * draw, 0.0, 1.0)


def spends_release_budget(config: MechanismConfig) -> bool:
    """Whether every upload spends `release_epsilon` on R."""
    return config.contribution_release in ("laplace", "randomized_response")
