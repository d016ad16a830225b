"""Models as pairs of pure functions `(init, apply)`."""

import importlib
import warnings
from typing import Any

from fedsvp_jax.models.adapters import from_linen, from_nnx, in_dtype
from fedsvp_jax.models.registry import MODEL_NAMES, make_model

__all__ = [
    "MODEL_NAMES",
    "from_linen",
    "from_nnx",
    "in_dtype",
    "make_model",
]


def __getattr__(name: str) -> Any:
    """The former names of the loaders in `fedsvp_jax.pretrained`."""
    if name not in ("load_hugging_face", "load_lite0"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{__name__}.{name} is now fedsvp_jax.pretrained.{name}",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(importlib.import_module("fedsvp_jax.pretrained"), name)
