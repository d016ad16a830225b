"""The former place of `fedsvp_jax.engines.nvflare`, until the next release."""

from fedsvp_jax.extras import moved

__getattr__ = moved("engines.nvflare", __name__)
