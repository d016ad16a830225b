"""The built-in models by name."""

import functools
from collections.abc import Callable
from functools import partial

import flax.linen as nn

from fedsvp_jax.core.settings import FEATURE_MODELS, MODEL_NAMES
from fedsvp_jax.core.structs import Model
from fedsvp_jax.models.adapters import from_linen
from fedsvp_jax.models.kernels import Kernels
from fedsvp_jax.models.linear import make_linear
from fedsvp_jax.models.networks import CNN, MLP, ResNet18

_NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "mlp": partial(MLP, hidden=(128,)),
    "small_cnn": partial(CNN, channels=(16, 32), kernel_size=3, hidden=128),
    "paper_cnn": partial(
        CNN, channels=(16, 32, 64), kernel_size=3, hidden=500, dropout_rate=0.3
    ),
    "leaf_cnn": partial(CNN, channels=(32, 64), kernel_size=5, hidden=2048),
    "resnet18": partial(ResNet18, normalization="batch"),
    "resnet18_gn": partial(ResNet18, normalization="group"),
}


@functools.cache  # equal models are one object, so that programs can be shared
def make_model(
    name: str,
    *,
    num_classes: int,
    kernels: Kernels = "cpu",
    shares: tuple[float, ...] = (),
) -> Model:
    """Builds a model by name; it adapts to the shape of the example given to `init`.

    The numbers of parameters are in tests/models/test_registry.py.

    Args:
      name: one of `MODEL_NAMES`.
      num_classes: logits per example, >= 2.
      kernels: of the kind of device that computes it: "cpu", "cuda" or "tpu".
      shares: of the classes, in proportion, which a linear model predicts at first; ():
        all the same.

    Raises:
      ValueError: the name is unknown, or `num_classes` < 2.
    """
    if name not in MODEL_NAMES:
        raise ValueError(f"model must be one of {', '.join(MODEL_NAMES)}, got {name!r}")
    if num_classes < 2:
        raise ValueError(
            f"at least two classes are needed, got {num_classes}; are all labels of "
            "the data set the same?"
        )
    if name in ("logistic", *FEATURE_MODELS):
        return make_linear(num_classes, shares)
    return from_linen(_NETWORKS[name](num_classes=num_classes, kernels=kernels))
