"""Models as pairs of pure functions `(init, apply)`; loaders of published networks."""

from fedsvp_jax.models.adapters import from_linen, from_nnx, in_dtype
from fedsvp_jax.models.hugging_face import load_hugging_face
from fedsvp_jax.models.inception import load_inception
from fedsvp_jax.models.lite0 import load_lite0
from fedsvp_jax.models.registry import MODEL_NAMES, make_model

__all__ = [
    "MODEL_NAMES",
    "from_linen",
    "from_nnx",
    "in_dtype",
    "load_hugging_face",
    "load_inception",
    "load_lite0",
    "make_model",
]
