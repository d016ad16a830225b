"""The life of a run: from settings to a folder of results that can be gone on with."""

from fedsvp_jax.run import sweep
from fedsvp_jax.run.one_run import train

__all__ = ["sweep", "train"]
