"""The former place of `fedsvp_jax.engines.flower`, until the next release."""

from fedsvp_jax.extras import moved

__getattr__ = moved("engines.flower", __name__)
