"""The host's random generators: each draw has an address, like the device's keys."""

import enum

import numpy as np

from fedsvp_jax.prng import Stream


class Draw(enum.IntEnum):
    """What is drawn. Numbers are part of the format: append, never renumber."""

    ASSIGN = 0
    WRITER_GROUPS = 1
    TRAIN_VALIDATION = 2


def generator(seed: int, draw: Draw, client: int = 0) -> np.random.Generator:
    """`default_rng((seed, Stream.PARTITION, draw, client))`.

    It depends on its address alone, never on what was drawn before.

    Raises:
      ValueError: seed is negative.
    """
    if seed < 0:
        raise ValueError(f"seed must be >= 0, got {seed}")
    return np.random.default_rng((seed, Stream.PARTITION, draw, client))
