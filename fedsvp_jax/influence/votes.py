"""A tester's vote, and the randomised response that hides it."""

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.structs import Array


def randomized_response(
    votes: Array, flip_probability: Array | float, key: Array
) -> Array:
    """+1 w.p. f/2, −1 w.p. f/2, the vote itself w.p. 1 − f; the shape of `votes`.

        E[report] = (1 − f)·v, so report/(1 − f) estimates v without bias

    There is one draw for each place and value of a vote, and it depends on the key
    alone: the same key gives the same answer to the same question, which is RAPPOR's
    memory of permanent answers without a table. Whoever asks again with another key
    asks for a new answer, and pays for it.

    Args:
      votes: (...) each −1 or +1.
      flip_probability: f in [0, 1]; 0 tells the votes as they are.
      key: the memory: one key for all times that these places are asked.

    Raises:
      ValueError: a concrete vote is not −1 or +1, or a concrete f is out of [0, 1].

    Source: lazy influence (arXiv 2205.11518), eq. 4; RAPPOR (Erlingsson et al. 2014).
    """
    concrete = not isinstance(votes, jax.core.Tracer)
    if concrete and not np.isin(np.asarray(votes), (-1, 1)).all():
        raise ValueError("votes must be −1 or +1")
    if isinstance(flip_probability, int | float) and not 0 <= flip_probability <= 1:
        raise ValueError(f"flip_probability must be in [0, 1], got {flip_probability}")
    votes = jnp.asarray(votes)
    flip = jnp.asarray(flip_probability, jnp.float32)
    of_value = jax.random.uniform(key, (*votes.shape, 2), jnp.float32)
    draw = jnp.where(votes > 0, of_value[..., 1], of_value[..., 0])
    one = jnp.ones((), votes.dtype)
    coin = jnp.where(draw < flip / 2, one, -one)
    return jnp.where(draw < flip, coin, votes)
