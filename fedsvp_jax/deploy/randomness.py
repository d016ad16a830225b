"""Where a deployed client's random numbers come from: secret, or seeded for tests."""

import os
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.mechanisms.discrete_gaussian import Words, system_words
from fedsvp_jax.structs import Array


class Secret(NamedTuple):
    """Entropy of the operating system, never written down.

    Attributes:
      words: the source; another one than the system's is for tests.
    """

    words: Words = system_words

    @property
    def hides(self) -> bool:
        """Whether nobody knows the noise."""
        return self.words is system_words


class Seeded(NamedTuple):
    """The simulator's own draws: for tests. Whoever knows the seed removes the noise.

    Attributes:
      seed: of the simulated run, whose noise follows it alone with --paired_noise.
      client_id: the client's number there.
    """

    seed: int
    client_id: int

    @property
    def hides(self) -> bool:
        """Whether nobody knows the noise: whoever knows the seed does."""
        return False

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
