"""A mechanism's uploads, played before a run: what they would say of their noise."""

import logging
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array, NoiseInfo

from .base import Mechanism
from .calibration import gaussian_epsilon
from .config import MechanismConfig
from .registry import BUILT_IN

_LOG = logging.getLogger(__name__)
_NEAR = 0.999  # of an ε: float32 rounds it


def player(mechanism: Mechanism) -> Callable[[Array, Array, Array], NoiseInfo]:
    """(|D|, R, round) -> what the mechanism says of such an upload, un-noised."""

    def upload(num_examples: Array, ratio: Array, round_num: Array) -> NoiseInfo:
        ones = {"w": jnp.ones((1,), jnp.float32)}
        return mechanism.update(
            ones,
            mechanism.init(1).of(0),
            key=None,
            num_examples=num_examples,
            contribution_ratio=ratio,
            round_num=round_num,
            params=ones,
        )[2]

    return upload


def extreme_uploads(
    mechanism: Mechanism, num_rounds: int, *sizes: float
) -> dict[tuple[float, int, float], NoiseInfo]:
    """Uploads by a client's |D|, the round (from 0: first and last) and R, 0 and 1."""
    upload = jax.jit(player(mechanism))  # by operations it takes a second
    return {
        (size, round_num, ratio): upload(
            np.int32(size), np.float32(ratio), np.int32(round_num)
        )
        for size in sizes
        for round_num in (0, num_rounds - 1)
        for ratio in (0.0, 1.0)
    }


def check_noise(mechanism: Mechanism, config: MechanismConfig, label: str) -> None:
    """Raises ValueError: an extreme upload's noise is negative, infinite or NaN.

    Warns where a mechanism from outside says an ε below that of Gaussian noise of its
    `noise_multiplier`, which `basic` would add up.

    The sentence names the mechanism by its `label`. Those of the smallest and of the
    largest client are looked at.
    """
    sizes = float(config.min_num_examples), config.max_num_examples
    infos = extreme_uploads(mechanism, config.num_rounds, *sizes)
    of_uploads = not mechanism.basis.central and mechanism.subsampling is None
    is_compared = of_uploads and label not in BUILT_IN
    for (size, round_num, ratio), info in infos.items():
        for name in ("noise_multiplier", "noise_std", "step_noise_std"):
            value = getattr(info, name)
            if not 0 <= value < math.inf:
                raise ValueError(
                    f"{name} of an upload must be at least 0 and finite, got "
                    f"{value:g} in round {round_num + 1} at R = {ratio:g} of a client "
                    f"of {size:g} examples, by mechanism {label}"
                )
        z = float(info.noise_multiplier)
        spent = gaussian_epsilon(z**-2, float(info.delta)) if z > 0 else math.inf
        if is_compared and info.epsilon < _NEAR * spent:
            is_compared = False
            _LOG.warning(
                f"mechanism {label} says ε = {info.epsilon:.3g} at δ = "
                f"{info.delta:.3g} of an upload, but Gaussian noise of its noise_"
                f"multiplier {z:.3g} spends {spent:.3g}: basic adds up the first, rdp "
                "and pld the second"
            )
