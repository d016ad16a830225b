"""The former place of `fedsvp_jax.tables.table`, until the next release."""

from fedsvp_jax.extras import moved

__getattr__ = moved("tables.table", __name__)
