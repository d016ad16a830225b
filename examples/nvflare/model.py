"""The server's model: named arrays in one file."""

import pathlib

import numpy as np
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.abstract.model import ModelLearnable, make_model_learnable
from nvflare.app_common.abstract.model_persistor import ModelPersistor


class NpzModel(ModelPersistor):
    """Starts from one .npz file, and keeps the model after each round in another.

    Args:
      start: the file to start from.
      output: the file to write.
    """

    def __init__(self, start: str, output: str) -> None:
        super().__init__()
        self.start, self.output = start, output

    def load_model(self, fl_ctx: FLContext) -> ModelLearnable:
        """The model before round 1."""
        with np.load(self.start) as saved:
            return make_model_learnable(dict(saved), {})

    def save_model(self, model: ModelLearnable, fl_ctx: FLContext) -> None:
        """After a round."""
        pathlib.Path(self.output).parent.mkdir(parents=True, exist_ok=True)
        np.savez(self.output, **model["weights"])
