"""H3: a client's budget for its private query, spread unevenly over its uploads.

A client uploads exactly n times, in cohorts that take turns. All its uploads together
may spend the precision n/z² (the sum of 1/z_j² over its Gaussians), as n uploads of the
even multiplier z would. The j-th upload takes the share s_j of it:

    spread_public   s_j = w_j, weights that are published before the run
    spread_guided   s_j = (what is left)/(n - j) · (1 + STRENGTH (2 R_j - 1)), the last
                    upload all that is left; R_j the client's released ratio

    z_j = z/sqrt(n s_j)

Privacy. The shares of a client sum to 1 on every path, whatever was released. So does
the time of a Brownian motion of length n/z² on which all its Gaussians can be read off,
with drift 0 for one data set and 1 for its neighbour: given what was released before,
an upload is a function of the next piece of that motion, and a release of R a function
of one randomised response, of which there are n. All that leaves the client is thus a
function of one Gaussian of multiplier z/√n and n randomised responses, and has no more
than their ε. The ledger counts z for each upload, which is the same sum once a client
has sent all n. Fully adaptive composition of Gaussians: Smith and Thakurta 2022; by
Rényi divergences, where the same two sums bound every order, Feldman and Zrnic 2021.
"""

import dataclasses
import math
from collections.abc import Callable

import jax.numpy as jnp

from fedsvp_jax.mechanisms import (
    Mechanism,
    MechanismConfig,
    base,
    mechanism_names,
    register_mechanism,
)
from fedsvp_jax.mechanisms.calibration import base_multiplier, concentrated_epsilon
from fedsvp_jax.mechanisms.sensitivity import make_sensitivity
from fedsvp_jax.mechanisms.shapley_guided import RELEASE_ASSUMPTIONS
from fedsvp_jax.structs import Array, MechanismState, NoiseInfo, Params

STRENGTH = 0.8
# The contribution ratio of the private class in five stages of training, from public
# data (docs/appendix/preregistration.md says how it was measured).
PUBLIC_RATIOS = (0.254, 0.442, 0.449, 0.456, 0.459)

# (share that is left, uploads so far, released R) -> share of this upload
Rule = Callable[[Array, Array, Array], Array]


def public_share(weights: tuple[float, ...]) -> Rule:
    """s_j = w_j/Σw of the j-th upload, whatever R is."""
    table = jnp.asarray(weights, jnp.float32) / sum(weights)
    return lambda left, done, ratio: table[jnp.minimum(done, len(weights) - 1)]


def guided_share(uploads: int, strength: float) -> Rule:
    """left/(n - j)·(1 + strength (2R - 1)), at the last upload all that is left."""

    def share(left: Array, done: Array, ratio: Array) -> Array:
        remaining = jnp.maximum(uploads - done, 1).astype(jnp.float32)
        factor = 1.0 + strength * (2.0 * ratio - 1.0)
        return jnp.where(remaining == 1, left, left / remaining * factor)

    return share


def _spread(config: MechanismConfig, rule: Rule, *, guided: bool) -> Mechanism:
    """The mechanism whose j-th upload takes `rule`'s share.

    Raises:
      ValueError: a client may not upload equally often in every case.
    """
    turns = config.num_clients // config.cohort_size
    uploads = config.max_uploads
    if (
        config.cohorts != "cyclic"
        or uploads is None
        or uploads * turns != (config.num_rounds)
    ):
        raise ValueError(
            "a spread budget needs cohorts=cyclic, and a num_rounds in which every "
            f"client has --max_uploads turns: {uploads} times {turns}, got "
            f"cohorts={config.cohorts}, num_rounds={config.num_rounds}"
        )
    if config.noise_sampler != "gaussian":
        raise ValueError(
            "noise_sampler must be gaussian for a spread budget, got "
            f"{config.noise_sampler}"
        )
    sensitivity = make_sensitivity(config)
    even = base_multiplier(config)
    release = config.contribution_release if guided else "worst_case"
    epsilon = concentrated_epsilon(even / math.sqrt(uploads), config.delta)

    def init(num_clients: int) -> MechanismState:
        return MechanismState(
            clients={
                "left": jnp.ones((num_clients,), jnp.float32),
                "done": jnp.zeros((num_clients,), jnp.int32),
            },
            shared={},
        )

    def update(
        updates: Params,
        state: MechanismState,
        *,
        key: Array,
        num_examples: Array,
        contribution_ratio: Array,
        round_num: Array,
        params: Params,
    ) -> tuple[Params, MechanismState, NoiseInfo]:
        del round_num
        left, done = state.clients["left"], state.clients["done"]
        share = jnp.clip(rule(left, done, contribution_ratio), 0.0, left)
        multiplier = even / jnp.sqrt(uploads * share)
        clipped = sensitivity.clip(updates, params)
        bound = sensitivity.bound(num_examples)
        noised, info = base.noised_upload(
            clipped,
            base.claimed(even, epsilon, config.delta),
            std=multiplier * bound,
            sensitivity=bound,
            at_upload=not config.clip.in_steps,
            grid=None,  # the proof is about Gaussians
            num_examples=num_examples,
            key=key,
        )
        spent = {"left": left - share, "done": done + 1}
        return noised, dataclasses.replace(state, clients=spent), info

    return Mechanism(
        init=init,
        update=update,
        needs_contribution=guided,
        claim=base.claim_of(
            sensitivity,
            "every client uploads as often as it may",
            RELEASE_ASSUMPTIONS[release] if guided else "the shares are published",
            proved=release != "raw",
            any_epsilon=True,
        ),
        least_multiplier=even,
        most_epsilon=epsilon,
        most_delta=jnp.asarray(config.delta, jnp.float32),
    )


def make_public(config: MechanismConfig) -> Mechanism:
    """The budget follows the published ratios `PUBLIC_RATIOS`."""
    return _spread(config, public_share(PUBLIC_RATIOS), guided=False)


def make_guided(config: MechanismConfig) -> Mechanism:
    """The budget follows each client's released ratio R."""
    rule = guided_share(config.max_uploads or 1, STRENGTH)
    return _spread(config, rule, guided=True)


def register() -> None:
    """Makes spread_public and spread_guided known; a second call does nothing."""
    if "spread_public" in mechanism_names():
        return
    register_mechanism(
        "spread_public",
        make_public,
        summary="a client's budget over its uploads by published Shapley values",
        unread=("contribution_release", "release_epsilon", "shapley", "utility"),
    )
    register_mechanism(
        "spread_guided",
        make_guided,
        summary="a client's budget over its uploads by its released Shapley values",
    )
