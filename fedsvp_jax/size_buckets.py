"""Clients of similar size side by side: what bounds the padding of a ragged cohort.

The lanes of a chunk take as many steps as its largest (`lanes.largest`). With the
cohort cut into chunks of c by falling size, no client of a chunk is larger than one
of the chunk before, so all chunks together run at most

    c · (steps of the largest client)

more steps than the clients need, whatever the cohort's size; none for c = 1. (Of
trainings on a coalition this holds as far as a larger client has a larger part.)
"""

import jax.numpy as jnp

from fedsvp_jax.structs import Array


def lane_order(sizes: Array, *, chunk_size: int) -> Array:
    """(L,) int32: whose turn each lane is, a permutation of the places 0, ..., L - 1.

    By falling size, equal ones and empty places last as they were. One lane a chunk
    and one chunk for all need no order and keep the given one.

    Args:
      sizes: (L,) int32; 0 for an empty place.
      chunk_size: c, as `lanes.map_lanes` takes it.
    """
    if chunk_size == 1 or chunk_size >= sizes.shape[0]:
        return jnp.arange(sizes.shape[0], dtype=jnp.int32)
    return jnp.argsort(-sizes, stable=True).astype(jnp.int32)


def steps_run(steps: Array, order: Array, *, chunk_size: int) -> Array:
    """() int32: steps that the chunks run, padding counted, for (L, T) steps needed.

    T trainings follow one another, and each runs to the largest lane of its chunk.
    The last chunk is filled up with copies of its last lane, which run as well.
    """
    missing = -order.shape[0] % chunk_size
    by_lane = jnp.pad(steps[order], ((0, missing), (0, 0)))
    by_chunk = by_lane.reshape(-1, chunk_size, steps.shape[1]).max(axis=1)
    return chunk_size * jnp.sum(by_chunk)
