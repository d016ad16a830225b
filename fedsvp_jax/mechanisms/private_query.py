"""The settings of the private query, which `--sensitivity=attribute_records` asks for.

A client trains on its public records alone, and asks its records of the private
attribute one question, the mean of their clipped gradients, which the server remembers
for the next round's training: `algorithm.private_query`.
"""

import dataclasses

import jax.numpy as jnp

from fedsvp_jax.settings import LEAST_CLIP, Settings, setting
from fedsvp_jax.structs import Array

_READ = ("sensitivity", ("attribute_records",))


@dataclasses.dataclass(frozen=True)
class PrivateQuerySettings(Settings):
    """Private query: how the records of the private attribute are asked."""

    private_clip: float = setting(
        0.3,
        "C of the private query: bound on the gradient's norm of each record of the "
        "private attribute.",
        at_least=LEAST_CLIP,
        infinite=True,
        traced=True,
        needs=_READ,
    )
    private_weight: float = setting(
        1.0,
        "λ: weight of the last round's released private gradient beside the public "
        "one in every local step; 0 leaves the private records out.",
        at_least=0,
        traced=True,
        needs=_READ,
    )
    private_margin: float = setting(
        0.0,
        "τ: how far public training lowers the logits of the private classes, whose "
        "records it never sees, so that it pushes them down less. For private classes "
        "only (--attributes=class).",
        at_least=0,
        traced=True,
        needs=_READ,
    )
    private_from: int = setting(
        0,
        "Rounds of public training before the first private query. An upload of these "
        "rounds says nothing of private records, costs nothing and is not counted by "
        "--max_uploads.",
        at_least=0,
        needs=_READ,
    )
    private_layers: str = setting(
        "all",
        "What the private query moves: all layers, the last (the layer of the logits "
        "alone, so that the noise has as few dimensions as that layer), or of the last "
        "only the weights of the private classes' logits (classes); public training "
        "then leaves these as they are.",
        choices=("all", "last", "classes"),
        needs=_READ,
    )


def query_bound(
    private_clip: Array | float, num_private: Array | float, *, factor: float
) -> Array:
    """f·C/|P|, () float32: how far one record moves the private query.

    Args:
      private_clip: C.
      num_private: |P|, the client's training records of the private attribute.
      factor: f, 2 where a record is replaced by another, 1 where it is left out of
        the sum and the divisor stays |P|.
    """
    size = jnp.maximum(jnp.asarray(num_private).astype(jnp.float32), 1.0)
    return factor * jnp.asarray(private_clip, jnp.float32) / size
