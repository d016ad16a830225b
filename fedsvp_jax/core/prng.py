"""Keys by purpose: every random number has an address.

    root_key(seed) -> round_key(root, round_num) -> stream_key(key, Stream.X, client_id)

A key depends on the seed, the round, the purpose and the client's id, never on
the order of the cohort, the device that runs the client, or how many other keys
were drawn before. Streams are independent because `fold_in` hashes each label.

Draws that hide something (`HIDING`) come from a second root, which also depends on a
digest of the run's settings and data (`run_keys`). Otherwise two published
runs of one seed would share these draws, and they would cancel: of models
m(σ) = w + σn, 2·m(.05) − m(.1) is w. Initial weights, the partition, cohorts and the
order of training are the same for all runs of one seed, so that runs can be compared.
"""

import enum
import math
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .structs import Array

IMPLEMENTATION = "threefry2x32"  # of every key here, whatever JAX's default is


class Stream(enum.IntEnum):
    """The purpose of a key. Numbers are part of the format: append, never renumber."""

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
    BATCH = 15
    WARM_UP = 16
    # 17 was the values of clients.
    SCORES = 18


HIDING = frozenset(
    {
        Stream.NOISE,
        Stream.SERVER_NOISE,
        Stream.CONTRIBUTION_RELEASE,
        Stream.DP_SGD,
        Stream.BATCH,
        Stream.VOTE,
        Stream.INFLUENCE,
        Stream.SCORES,
    }
)


class Keys(NamedTuple):
    """The two roots of a run, or the two keys of a round."""

    shared: Array  # by all runs of one seed
    secret: Array  # of the streams in `HIDING`


Digest = tuple[int, int]  # two words of 32 bits


AnyKey = Array | Keys  # a plain key serves all streams: of a game, of a test
_Key = TypeVar("_Key", bound=AnyKey)


def run_keys(seed: int, digest: Digest | None, noise_key: bytes | None = None) -> Keys:
    """The roots of a run; without a digest (paired noise) both are the seed's.

    Args:
      noise_key: 8 bytes that nobody knows; the secret root follows them and the seed.
    """
    shared = secret = root_key(seed)
    if noise_key is not None:
        words = jnp.asarray(np.frombuffer(noise_key, np.uint32))
        secret = jax.random.fold_in(key_of(words), seed)
    for word in digest or ():
        secret = jax.random.fold_in(secret, np.uint32(word))
    return Keys(shared, secret)


def root_key(seed: Array | int) -> Array:
    """The run's root key; `seed` may be traced (a sweep's seed axis)."""
    return jax.random.key(seed, impl=IMPLEMENTATION)


def key_of(words: Array) -> Array:
    """The key whose `jax.random.key_data` are these two words, uint32."""
    return jax.random.wrap_key_data(words, impl=IMPLEMENTATION)


def round_key(root: _Key, round_num: Array | int) -> _Key:
    """The key, or the pair of keys, of one round (rounds count from 0)."""
    return jax.tree.map(lambda key: jax.random.fold_in(key, round_num), root)


def stream_key(key: AnyKey, stream: Stream, client_id: Array | int = 0) -> Array:
    """The key of one purpose and client: `fold_in(fold_in(key, stream), client_id)`.

    Draws that a run makes once (INIT, the order of cyclic cohorts, SCORES) take a root
    key, all others a round's. The stream chooses between the two keys of a pair.
    """
    if isinstance(key, Keys):
        key = key.secret if stream in HIDING else key.shared
    return jax.random.fold_in(jax.random.fold_in(key, int(stream)), client_id)


class Address(NamedTuple):
    """The place of a computation in a run: each purpose of a client has its key.

    Attributes:
      key: the round's.
      client: () int32, the client's id.
      round_num: () int32, from 0.
      lane_axes: names of the enclosing vmap axes.
    """

    key: AnyKey
    client: Array | int
    round_num: Array | int = 0
    lane_axes: tuple[str, ...] = ()

    def stream(self, purpose: Stream) -> Array:
        """The client's key for a purpose, in this round."""
        return stream_key(self.key, purpose, self.client)


def _threefry2x32(key: Array, low: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds of the counters (0, low), under a key of two words.

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA))
    x0, x1 = jnp.broadcast_to(keys[0], low.shape), low + keys[1]
    for block in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            x0 += x1
            x1 = x0 ^ (x1 << jnp.uint32(turn) | x1 >> jnp.uint32(32 - turn))
        x0 += keys[(block + 1) % 3]
        x1 = x1 + keys[(block + 2) % 3] + jnp.uint32(block + 1)
    return x0, x1


# erf⁻¹(1 − 2p) = Σ a_i s^i, s = √(−ln p), for p from 2^-65 to 2^-23, off by 1e-5 at
# most; fitted to scipy.stats.norm.isf; the highest power first.
_TAIL = (-0.00013676104, 0.0037778818, -0.042341182, 1.248001, -0.86037925)
NORMAL_END = 9.155  # of `normal` on either side, rounded down: the quantile of 2^-65


def normal(key: Array, size: int) -> Array:
    """(size,) float32 of N(0, 1): `jax.random.normal(key, (size,))`, with long tails.

    JAX maps 23 bits to 2^23 values of equal chance, which end at −5.42 and 5.22. Here
    the outermost on either side, whose tail has the chance p = 2^-23, is drawn from
    that tail with the 41 bits that JAX throws away; it ends at 9.15. All other numbers
    have JAX's bits.

    JAX runs the hash of a CPU as a loop over arrays in memory. As one kernel without
    a loop it takes a third of the time (JAX 0.10.2, measured again on 2026-11-26;
    BUILD_NOTES.md, "The noise of an upload"). The key is one of `root_key`'s,
    jax_threefry_partitionable is true, and the numbers are fewer than 2**32.
    """
    words = _threefry2x32(jax.random.key_data(key), jnp.arange(size, dtype=jnp.uint32))
    mixed = words[0] ^ words[1]
    place = mixed >> jnp.uint32(9)
    mantissa = place | jnp.uint32(0x3F800000)
    unit = jax.lax.bitcast_convert_type(mantissa, jnp.float32) - 1  # in [0, 1)
    lowest = np.nextafter(np.float32(-1), np.float32(0), dtype=np.float32)
    uniform = jnp.maximum(lowest, unit * (np.float32(1) - lowest) + lowest)
    rest = (mixed & jnp.uint32(511)).astype(jnp.float32)
    rest += (words[0].astype(jnp.float32) + np.float32(0.5)) * np.float32(2.0**-32)
    root = jnp.sqrt(np.float32(32 * math.log(2)) - jnp.log(rest))  # p = rest · 2^-32
    far = jnp.polyval(jnp.asarray(_TAIL, jnp.float32), root)
    inverse = jnp.where(place == 0, -far, jax.lax.erf_inv(uniform))
    inverse = jnp.where(place == jnp.uint32(2**23 - 1), far, inverse)
    return np.float32(np.sqrt(2)) * inverse


class Draw(enum.IntEnum):
    """The subject of a draw. Numbers are part of the format: append, never renumber."""

    ASSIGN = 0
    TRAIN_VALIDATION = 2
    SERVER_VALIDATION = 3


def generator(seed: int, draw: Draw, client: int = 0) -> np.random.Generator:
    """`default_rng((seed, Stream.PARTITION, draw, client))`.

    It depends on its address alone, never on what was drawn before.

    Raises:
      ValueError: seed is negative.
    """
    return np.random.default_rng((seed, Stream.PARTITION, draw, client))
