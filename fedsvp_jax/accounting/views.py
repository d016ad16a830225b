"""Adversaries' views of an upload, and the noise that each view faces."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.mechanisms.calibration import concentrated_epsilon

# What an adversary sees of a client's upload: the upload itself ("server"), or the
# cohort's average, of whose noise it knows the part of 0, 1 or h other clients.
VIEWS = ("server", "observer", "curious_client", "colluders")
AVERAGED = (
    "sees the average alone, over a secure channel to an honest server; the other "
    "clients add their noise honestly"
)
BYPASSED = (
    "sees every upload, which secure aggregation is to hide, so that of each its "
    "client's share of the noise alone counts"
)
AGGREGATED = (
    "sees the models alone, over a secure channel to an honest server; uploads are not "
    "averaged, so of an upload its own noise alone counts"
)
SEEN = {
    "server": ("server", "sees every upload"),
    "curious_client": (
        "honest-but-curious client",
        f"{AVERAGED}; it knows its own noise, and is taken to see every round",
    ),
    "colluders": (
        "honest-but-curious clients, {} colluding",
        f"{AVERAGED}; the colluders pool their noise",
    ),
    "observer": (
        "outside observer of the final model",
        f"{AVERAGED}; counted as if it saw every round's model, since no gain from "
        "hiding the earlier ones is proved here",
    ),
}


def averaged_multiplier(
    noise_multiplier: np.ndarray,
    noise_std: np.ndarray,
    weights: np.ndarray,
    num_known: int,
) -> np.ndarray:
    """(K,) z_i of the average, when the noise of `num_known` others is known.

        z_i = sqrt(Σ_{j in H} p_j² σ_j²) / (p_i Δ_i), Δ_i = σ_i / z_i

    H leaves out the `num_known` clients other than i of the largest p_j σ_j; i's own
    noise always counts, so z_i is at least the upload's. It is 0 where the upload had
    no noise, and inf where the client weighs nothing or the upload's own z is inf.
    """
    variance = np.square(weights * noise_std)
    top = np.concatenate([[0.0], np.cumsum(np.sort(variance)[::-1])])
    count = min(num_known, len(variance) - 1)
    # Among the others of i the largest `count` are the first ones of all, with the
    # next one in i's place when i is itself among them.
    removed = np.minimum(top[count], top[count + 1] - variance)
    remaining = np.maximum(variance.sum() - removed, variance)
    ratio = np.sqrt(remaining / np.where(variance > 0, variance, 1.0))
    hidden = (weights > 0) & np.isfinite(noise_multiplier)
    averaged = np.where(hidden & (variance > 0), noise_multiplier, 0.0) * ratio
    return np.where(hidden, averaged, np.inf)


class Counted(NamedTuple):
    """Multipliers and ε with which an account counts the uploads of a round."""

    multiplier: np.ndarray  # (4, K) z by view
    epsilon: np.ndarray  # (K,) claimed; of an average, by the cohort that there was
    even: bool  # whether noise and weights of the cohort are equal


def counted(
    noise: NoiseInfo, weights: Any | None, view: str, colluders: int
) -> Counted:
    """The multipliers and ε of a round's uploads, by all views.

    Args:
      noise: what the mechanism says of each upload; leaves (K,). Noise in the local
        steps is not shared: every view then counts the upload as the server does,
        but for a cohort that shares the noise of its one step.
      weights: (K,) p_i of the average, for the views that see it alone. Without
        them every view counts as the server's.
      view: of the claim.
      colluders: h.
    """
    leaves = noise.noise_multiplier, noise.sensitivity, noise.noise_std, noise.epsilon
    z, bound, at_upload, epsilon, deltas = np.asarray([*leaves, noise.delta], float)
    noised = (at_upload > 0) | (view != "server")
    noised &= np.isfinite(z)  # an upload of public data carries no noise
    std = np.where(noised, z, 0) * np.where(noised, bound, 0)
    # Beyond float32 a noise is inf.
    is_unshared = np.any(np.isin(std, (0, math.inf)) & (z > 0) & np.isfinite(z))
    multipliers = np.stack([z] * len(VIEWS))
    if weights is None or not len(z) or is_unshared:
        return Counted(multipliers, epsilon, even=False)
    share = np.asarray(weights, float)
    for number, num_known in enumerate((0, 1, colluders), 1):
        multipliers[number] = averaged_multiplier(z, std, share, num_known)
    if view != "server":
        multiplier = multipliers[VIEWS.index(view)]
        epsilons = concentrated_epsilon(*jnp.asarray([multiplier, deltas]))
        epsilon = np.where(np.isinf(multiplier), 0.0, np.asarray(epsilons, float))
    return Counted(
        multipliers, epsilon, len(z) > 1 and len({*std}) == len({*share}) == 1
    )
