"""A deployed client's draws: the noise of an upload, and the release of R.

The random numbers are secret, or seeded for tests; the noise is discrete on a grid.
"""

import dataclasses
import math
import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, NoiseInfo
from fedsvp_jax.mechanisms import MechanismConfig, release_contribution
from fedsvp_jax.mechanisms.discrete_gaussian import (
    Words,
    discrete_gaussian,
    rounded,
    step_variance,
    system_words,
    wrapped,
)
from fedsvp_jax.mechanisms.grid import Grid, grid_step, on_grid
from fedsvp_jax.mechanisms.release import bounded_ratio, response_chance

Arrays = Sequence[np.ndarray]  # the leaves of a model, in order
_FINEST = 2.0**-25  # γ over the noise's std: the sampler's products fit 64 bits
_LONGEST = 2.0**28  # of a vector in steps: its square fits 64 bits
_DRAWN = 2**18  # numbers at once: a draw takes some thirty arrays of their length


@dataclasses.dataclass(frozen=True)
class Secret:
    """Entropy of the operating system, never written down."""

    words: Words = system_words  # another source is for tests
    client_id: ClassVar[int] = 0  # which decides nothing

    @property
    def hides(self) -> bool:
        """Whether nobody knows the noise."""
        return self.words is system_words

    def key(self, round_num: int, stream: prng.Stream) -> Array | None:
        """None: no key decides what is drawn."""
        return None

    def training_key(self, round_num: int) -> Array:
        """The key of a round's local training, as `client_round` takes it.

        What it decides (order of batches, dropout, random coalitions) hides nothing, so
        64 secret bits are enough where noise draws all of its bits from the system.
        """
        return prng.key_of(jnp.asarray(np.frombuffer(os.urandom(8), np.uint32)))


@dataclasses.dataclass(frozen=True)
class Seeded:
    """The simulator's own draws: for tests. Whoever knows the seed removes the noise.

    Attributes:
      seed: of the simulated run, whose noise follows it alone with --paired_noise.
      client_id: the client's number there.
    """

    seed: int
    client_id: int
    hides: ClassVar[bool] = False
    words: ClassVar[None] = None

    def key(self, round_num: int, stream: prng.Stream) -> Array:
        """The key that the simulator uses in the round, counted from 1."""
        return prng.stream_key(self.training_key(round_num), stream, self.client_id)

    def training_key(self, round_num: int) -> Array:
        """The simulator's key of a round."""
        return prng.round_key(prng.root_key(self.seed), round_num - 1)


Randomness = Secret | Seeded
SECRET = Secret()


def add_secret_noise(
    clipped: Arrays,
    received: Arrays,
    info: NoiseInfo,
    config: MechanismConfig,
    words: Words,
) -> tuple[list[np.ndarray], dict[str, Any]]:
    """γ(q + N_Z(0, (σ/γ)² + 9)), q the clipped update on the grid; float64.

    Under `update_clip` and `weight_clip`, q lies in the ball of radius C exactly, and σ
    is the simulator's. Else rounding may move two neighbours √d steps apart, so

        σ = z(Δ + γ√d)

    and z, which the ledger counts, is the simulator's in any case: the noise hides no
    less than a Gaussian of z (docs/appendix, P17).

    The update, or the private query's answer, is `clipped`; under `weight_clip` the
    grid is that of the `received` weights. `info` tells σ > 0 and Δ without a grid. The
    second result goes into the record.

    Source: Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), Theorem 4.
    """
    std, sensitivity = float(info.noise_std), float(info.sensitivity)
    origin: np.ndarray | float = 0.0
    if config.clip.of_weights:
        origin = np.concatenate(received, axis=None, dtype=np.float64)
    vector = origin + np.concatenate(clipped, axis=None)
    length = float(config.private_clip if config.clip.is_query else config.l2_norm_clip)
    if config.clip.bound_unproved:
        length = 0.0  # nothing bounds it
    step = 2.0 ** math.ceil(math.log2(max(std * _FINEST, length / _LONGEST)))
    bound = length
    if not config.clip.in_ball:
        bound = 2 * _LONGEST * step
        std *= 1 + step * math.sqrt(vector.size) / sensitivity
    numbers = rounded(vector, step=step, norm_bound=bound, words=words)
    _add_noise(numbers, step_variance(std, step), words)
    noised = numbers * step
    noised -= origin
    return in_shapes_of(clipped, noised), {"noise_std": std, "grid_step": step}


def whole_numbers(
    update: Arrays, grid: Grid, std: float, words: Words | None
) -> tuple[Arrays, float]:
    """A client's part of a secure sum, int64 arrays in [−2^(b−1), 2^(b−1)), and γ.

    Where `words` is None, the clipped update is noised on the grid already; else its
    share of the noise has the std `std`.
    """
    step = float(grid_step(grid, jnp.float32(std)))
    if words is None:
        return [
            np.rint(np.float64(leaf) / step).astype(np.int64) for leaf in update
        ], step
    vector = np.concatenate(update, axis=None)
    distance = 0.0 if grid.apart is None else float(grid.apart(jnp.float32(1)))
    numbers = on_grid(
        vector, step, norm=float(grid.norm), distance=distance, words=words
    )
    _add_noise(numbers, step_variance(std, step), words)
    return in_shapes_of(update, wrapped(numbers, grid.bits)), step


def released(
    contribution: float | None,
    config: MechanismConfig,
    randomness: Randomness,
    round_num: int,
) -> np.float32:
    """The R that the noise may follow, as `contribution_release` says."""
    with np.errstate(over="ignore"):
        ratio = np.float32(math.nan if contribution is None else contribution)
    if isinstance(randomness, Seeded):
        key = randomness.key(round_num, prng.Stream.CONTRIBUTION_RELEASE)
        return np.float32(release_contribution(jnp.asarray(ratio), config, key=key))
    if config.contribution_release == "randomized_response":
        chance = float(response_chance(float(ratio), config.release_epsilon))
        return np.float32(float(randomness.words(1)[0]) * 2.0**-64 < chance)
    return np.float32(bounded_ratio(float(ratio)))


def _add_noise(numbers: np.ndarray, variance: Fraction, words: Words) -> None:
    """Adds N_Z(0, σ²) to each of the numbers (d,), in place."""
    for start in range(0, numbers.size, _DRAWN):
        part = numbers[start : start + _DRAWN]
        part += discrete_gaussian(variance, part.size, words)


def in_shapes_of(arrays: Arrays, vector: np.ndarray) -> list[np.ndarray]:
    """A vector's numbers as arrays of the shapes of others, in order."""
    parts = np.split(vector, np.cumsum([leaf.size for leaf in arrays])[:-1])
    return [part.reshape(leaf.shape) for part, leaf in zip(parts, arrays, strict=True)]
