"""The life of a run: from settings to a folder of results that can be gone on with."""

from fedsvp_jax.run import sweep
from fedsvp_jax.run.final_scores import reference_scores
from fedsvp_jax.run.one_run import train
from fedsvp_jax.run.options import Options
from fedsvp_jax.run.trained_model import TrainedModel, load_model

__all__ = [
    "Options",
    "TrainedModel",
    "load_model",
    "reference_scores",
    "sweep",
    "train",
]
