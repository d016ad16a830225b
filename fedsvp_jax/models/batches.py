"""A function of a batch, applied to any number of rows."""

from collections.abc import Callable, Iterator

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.structs import Array


def in_batches(
    function: Callable[[Array], Array], rows: np.ndarray | Array, batch_size: int
) -> Iterator[np.ndarray]:
    """What a function of a batch makes of the rows, in their order, batch by batch.

    Every batch has one shape: the last one is filled up with zeros, and what the
    function makes of these is left out.
    """
    for first in range(0, len(rows), batch_size):
        some = np.asarray(rows[first : first + batch_size])
        whole = np.zeros((batch_size, *some.shape[1:]), some.dtype)
        whole[: len(some)] = some
        yield np.asarray(function(jnp.asarray(whole)))[: len(some)]
