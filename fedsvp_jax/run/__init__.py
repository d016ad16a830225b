"""The life of a run: from settings to a folder of results that can be gone on with."""

from . import sweep
from .final_scores import reference_scores
from .one_run import train
from .options import Options
from .trained_model import TrainedModel, load_model

__all__ = [
    "Options",
    "TrainedModel",
    "load_model",
    "reference_scores",
    "sweep",
    "train",
]
