"""The former place of `fedsvp_jax.tables`, until the next release."""
