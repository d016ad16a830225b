"""Log likelihood ratios of what a round publishes beside the uploads.

Two things may be published: the released contribution ratio R, and the adaptive clip
of dp_fedavg. Both are () float32, positive where world "in" is the likelier one.
"""

import jax.numpy as jnp

from fedsvp_jax.core.structs import Array
from fedsvp_jax.mechanisms import MechanismConfig


def log_ratio(released: Array, ratios: Array, config: MechanismConfig) -> Array:
    """ln P(released | R in world "in") − ln P(released | R in world "out").

    With ε the budget of the release:

        laplace              clip(R + Laplace(1/ε), 0, 1): the density inside (0, 1),
                             the mass of the tail at 0 and at 1
        randomized_response  1 with probability 1/(1 + e^ε) + R·(e^ε − 1)/(e^ε + 1)

    Args:
      released: () what the adversary sees.
      ratios: (2,) R in the worlds (in, out), in [0, 1].
      config: `contribution_release` is one of the two.
    """
    epsilon = jnp.float32(config.release_epsilon)
    if config.contribution_release == "laplace":
        # The tails at 0 and 1 begin at a distance R and 1 − R, as the density does
        # that far away: one formula is right for all three.
        logs = -epsilon * jnp.abs(released - ratios)
    else:
        odds = jnp.exp(epsilon)
        chance = (1.0 + ratios * (odds - 1.0)) / (1.0 + odds)
        logs = jnp.log(jnp.where(released > 0.5, chance, 1.0 - chance))
    return logs[0] - logs[1]


def clip_log_ratio(
    before: Array,
    after: Array,
    config: MechanismConfig,
    *,
    clipped: Array,
    others_clipped: Array,
) -> Array:
    """The log likelihood ratio of an adaptive clip, seen before and after a round.

    The clip S′ = S·exp(−η(b̃ − γ)) reveals the noised count b̃·K of clients that were not
    clipped, a Gaussian of std σ_b around the true count.

    Args:
      before, after: () S and S′.
      config: of dp_fedavg with `adaptive_clip`.
      clipped: (2,) whether the client was clipped in the worlds (in, out).
      others_clipped: (K − 1,) whether the others were.

    Source: Andrew et al. 2021 (arXiv 1905.03871), Algorithm 1.
    """
    settings = config.settings
    share = (
        settings.clip_quantile - jnp.log(after / before) / settings.clip_learning_rate
    )
    count = share * (1.0 + len(others_clipped))
    expected = 1.0 - clipped + jnp.sum(1.0 - others_clipped)
    logs = -0.5 * jnp.square((count - expected) / settings.count_noise_std)
    return logs[0] - logs[1]
