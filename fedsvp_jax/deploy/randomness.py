"""Where a deployed client's random numbers come from: secret, or seeded for tests."""

import os
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.structs import Array


class Secret:
    """Entropy of the operating system, never written down."""

    label = "secret"

    def uniform(self, size: int) -> np.ndarray:
        """(size,) float64 in (0, 1), of 53 random bits each."""
        words = np.frombuffer(os.urandom(8 * size), np.uint64) >> np.uint64(11)
        return (words.astype(np.float64) + 0.5) * 2.0**-53


class Seeded(NamedTuple):
    """The simulator's own draws: for tests. Whoever knows the seed removes the noise.

    Attributes:
      seed: of the simulated run.
      client_id: the client's number there.
    """

    seed: int
    client_id: int

    @property
    def label(self) -> str:
        """What the record says."""
        return "not private: seeded"

    def key(self, round_num: int, stream: prng.Stream) -> Array:
        """The key that the simulator uses in the round, counted from 1."""
        root = prng.root_key(self.seed)
        return prng.stream_key(
            prng.round_key(root, round_num - 1), stream, self.client_id
        )


Randomness: TypeAlias = Secret | Seeded
SECRET = Secret()


def training_key(randomness: Randomness, round_num: int) -> Array:
    """The key of a round's local training, as `algorithm.client` takes it.

    What it decides (order of batches, dropout, random coalitions) hides nothing, so 64
    secret bits are enough where noise draws all of its bits from the system.
    """
    if isinstance(randomness, Seeded):
        return prng.round_key(prng.root_key(randomness.seed), round_num - 1)
    words = np.frombuffer(os.urandom(8), np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words))
