"""Models as pairs of pure functions `(init, apply)`."""

from fedsvp_jax.models.adapters import from_linen, from_nnx
from fedsvp_jax.models.networks import make_model

__all__ = [
    "from_linen",
    "from_nnx",
    "make_model",
]
