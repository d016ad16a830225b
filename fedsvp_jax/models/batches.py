"""A function of a batch, applied to any number of rows."""

from collections.abc import Callable, Iterator

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array


def in_batches(
    function: Callable[[Array], Array], rows: np.ndarray | Array, batch_size: int
) -> Iterator[np.ndarray]:
    """The function's results for the rows, in their order, batch by batch.

    Every batch has one shape: the last one is filled up with zeros, whose results are
    left out.
    """
    for first in range(0, len(rows), batch_size):
        chunk = np.asarray(rows[first : first + batch_size])
        batch = np.zeros((batch_size, *chunk.shape[1:]), chunk.dtype)
        batch[: len(chunk)] = chunk
        yield np.asarray(function(jnp.asarray(batch)))[: len(chunk)]
