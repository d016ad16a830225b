"""Computing R from the noise: σ depends on R, so σ reveals R.

The server holds the broadcast model w and an upload w_i + N(0, σ²I) of d numbers. The
update w_i − w is short compared with the noise, so the d coordinates are a sample of
the noise, and their size gives σ up to a relative error of 1/sqrt(2d). All other
symbols of the published formula are public, so it then gives R. This attack is the
project's own.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax.core.structs import Array, Params


class RecoveredRatio(NamedTuple):
    """The estimate of R from one upload, with its error."""

    noise_std: Array  # () float32: estimate of σ
    contribution_ratio: Array  # () float32: estimate of R, clipped to [0, 1]
    standard_error: Array  # () float32: of that estimate, before its clip


def estimate_noise_std(
    upload: Params, broadcast: Params, guess: Params | None = None
) -> Array:
    """() float32: the estimate σ̂ = sqrt(max(0, ‖u − w − g‖²)/d).

    Its relative error is 1/sqrt(2d) from sampling, and ‖update − g‖²/(2dσ²) from what
    the guess g leaves of the update.

    Args:
      upload: u, the noised model of one client.
      broadcast: w.
      guess: g, the attacker's guess of the update without noise, such as the average
        update of the round; None guesses 0.
    """
    rest = jax.tree.map(jnp.subtract, upload, broadcast)
    if guess is not None:
        rest = jax.tree.map(jnp.subtract, rest, guess)
    leaves = [leaf.astype(jnp.float32) for leaf in jax.tree.leaves(rest)]
    total = sum((jnp.sum(jnp.square(x)) for x in leaves), jnp.zeros((), jnp.float32))
    return jnp.sqrt(total / float(sum(leaf.size for leaf in leaves)))


def recover_contribution_ratio(
    upload: Params,
    broadcast: Params,
    *,
    epsilon: float,
    delta: float,
    sensitivity: float,
    guess: Params | None = None,
) -> RecoveredRatio:
    """R̂ = (ε·σ̂/Δ)² + ln δ²: FedSVA's noise formula, solved for R.

    Where the noise floor β applies it hides R; with T = R − ln δ² this needs
    β > −ln δ². The standard error is 2T/sqrt(2d), the relative error of σ² times T.

    Args:
      upload: the noised model of one client.
      broadcast: the model that the client started from.
      epsilon: ε, public.
      delta: δ, public.
      sensitivity: Δ, public (2C/|D|).
      guess: as in `estimate_noise_std`.

    Raises:
      ValueError: ε or Δ not > 0, or δ outside (0, 1).

    Source of the formula: FedSVA (arXiv 2503.12958v2), sec. 3.2.
    """
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        if not value > 0:
            raise ValueError(f"{name} must be > 0, got {value}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    noise_std = estimate_noise_std(upload, broadcast, guess)
    tolerance = jnp.square(epsilon / sensitivity * noise_std)
    ratio = tolerance + 2.0 * math.log(delta)
    size = sum(leaf.size for leaf in jax.tree.leaves(upload))
    return RecoveredRatio(
        noise_std=noise_std,
        contribution_ratio=jnp.clip(ratio, 0.0, 1.0),
        standard_error=tolerance * math.sqrt(2.0 / size),
    )
