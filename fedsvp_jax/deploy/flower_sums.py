"""The former place of `fedsvp_jax.engines.flower_sums`, until the next release."""

from fedsvp_jax.extras import moved

__getattr__ = moved("engines.flower_sums", __name__)
