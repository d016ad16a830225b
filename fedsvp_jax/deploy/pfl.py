"""The former place of `fedsvp_jax.engines.pfl`, until the next release."""

from fedsvp_jax.extras import moved

__getattr__ = moved("engines.pfl", __name__)
