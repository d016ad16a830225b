"""Models as pairs of pure functions `(init, apply)`."""

from .adapters import from_linen, from_nnx
from .networks import make_model

__all__ = ["from_linen", "from_nnx", "make_model"]
