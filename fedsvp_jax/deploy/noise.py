"""The secret noise of an upload, and the secret release of R."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsvp_jax.deploy.randomness import Secret
from fedsvp_jax.deploy.refusal import Refused
from fedsvp_jax.mechanisms import MechanismConfig
from fedsvp_jax.mechanisms.release import response_chance
from fedsvp_jax.structs import NoiseInfo


def add_secret_noise(
    arrays: Sequence[np.ndarray], info: NoiseInfo, randomness: Secret
) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The clipped arrays and Gaussian noise of `info.noise_std`, in float64.

    Returns:
      `(noised, facts)`: what the record says of the noise.
    """
    import scipy.special

    noised = []
    for array in arrays:
        draw = scipy.special.ndtri(randomness.uniform(array.size))
        noised.append(array + float(info.noise_std) * draw.reshape(array.shape))
    return noised, {"sampler": "gaussian"}


def released_in_secret(
    ratio: float, config: MechanismConfig, randomness: Secret
) -> np.float32:
    """The R that the noise may follow; its draw is the operating system's.

    Raises:
      Refused: `laplace`, whose draw in floating point can tell R.
    """
    if config.contribution_release == "laplace":
        raise Refused(
            "contribution_release must be randomized_response or worst_case in a "
            "deployed client: laplace is drawn in floating point, whose last bits tell "
            "R"
        )
    if config.contribution_release == "randomized_response":
        chance = float(response_chance(ratio, config.release_epsilon))
        return np.float32(randomness.uniform(1)[0] < chance)
    return np.float32(ratio)
