"""The former place of `load_hugging_face`, until the next release."""

from typing import Any

from fedsvp_jax import models


def load_hugging_face(checkpoint: Any) -> Any:
    """`fedsvp_jax.pretrained.load_hugging_face`, with a warning."""
    return models.load_hugging_face(checkpoint)
