"""Keys by purpose: every random number has an address.

    root(seed) -> round_key(root, round_num) -> stream_key(key, Stream.X, client_id)

A key depends on the seed, the round, the purpose and the client's id, never on
the order of the cohort, the device that runs the client, or how many other keys
were drawn before. Streams are independent because `fold_in` hashes each label.
"""

import enum

import jax
import numpy as np

from fedsvp_jax.structs import Array


class Stream(enum.IntEnum):
    """What a key is for. Numbers are part of the format: append, never renumber."""

    INIT = 0
    PARTITION = 1
    COHORT = 2
    LOCAL_TRAINING = 3
    NOISE = 4
    SERVER_NOISE = 5
    CONTRIBUTION_RELEASE = 6
    DP_SGD = 7
    ATTACKER = 8
    CANARY = 9
    INVERSION = 10
    CORRUPTION = 11
    VOTE = 12
    INFLUENCE = 13
    COALITIONS = 14


def root_key(seed: Array | int) -> Array:
    """The run's root key; `seed` may be traced (a sweep's seed axis)."""
    return jax.random.key(seed)


def round_key(root: Array, round_num: Array | int) -> Array:
    """The key of one round (rounds count from 0)."""
    return jax.random.fold_in(root, round_num)


def stream_key(key: Array, stream: Stream, client_id: Array | int = 0) -> Array:
    """The key of one purpose and client: `fold_in(fold_in(key, stream), client_id)`.

    Set-up draws (INIT, PARTITION) take the root key, everything else a round's.
    """
    return jax.random.fold_in(jax.random.fold_in(key, int(stream)), client_id)


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
