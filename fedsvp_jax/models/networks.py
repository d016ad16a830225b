"""The built-in networks: a linear layer, a perceptron, CNNs, ResNet-18; and by name."""

from collections.abc import Callable
from functools import cache, partial

import flax.linen as nn
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.float32 import pairwise_sum
from fedsvp_jax.core.settings import FEATURE_MODELS, MODEL_NAMES
from fedsvp_jax.core.structs import Array, Model

from .adapters import from_linen
from .kernels import Kernels
from .layers import PYTORCH_UNIFORM, Conv, ConvReluPool, Dense, GroupNorm

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # ResNet's channels, first stride
_Conv = partial(Conv, kernel_init=PYTORCH_UNIFORM)


class Linear(nn.Module):
    """y = x W^T + b; W (out, in) and b start at 0, since the loss is convex in them.

    Where the shares of the classes are public, b starts at their logarithms, which
    predict these shares.
    """

    num_classes: int
    shares: tuple[float, ...] = ()

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        if x.ndim != 2:
            raise ValueError(
                f"a linear model takes vectors, got examples of the shape "
                f"{x.shape[1:]}; for images use model=mlp, or scatter_linear, which "
                "makes features of them"
            )
        zeros = nn.initializers.zeros
        shape = (self.num_classes, x.shape[-1])
        kernel = self.param("kernel", zeros, shape, jnp.float32)
        bias = self.param("bias", self._prior, (self.num_classes,), jnp.float32)
        return x @ kernel.T + bias[None]

    def _prior(self, key: Array, shape: tuple[int], dtype: jnp.dtype) -> Array:
        shares = np.asarray(self.shares or np.ones(shape), np.float64)
        return jnp.asarray(np.log(shares / shares.max()), dtype)


def gradient_scale(x: Array) -> Array:
    """(n, f) -> (n,): ‖∂ℓ/∂(W, b)‖ / ‖∂ℓ/∂logits‖ of every example.

    The gradient by W is the outer product of the one by the logits with x, and the
    gradient by b is the one by the logits (Goodfellow 2015, arXiv 1510.01799). Off by
    at most 24u of itself, as a norm is (`tree.l2_norm`).
    """
    return jnp.sqrt(1 + pairwise_sum(jnp.square(x.T)))


class MLP(nn.Module):
    """Dense layers with ReLU between them; the last gives the logits."""

    num_classes: int
    hidden: tuple[int, ...] = (128,)
    kernels: Kernels = "cpu"

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        x = x.reshape(len(x), -1)
        for features in self.hidden:
            x = nn.relu(Dense(features, kernels=self.kernels)(x))
        return Dense(self.num_classes, kernels=self.kernels)(x)


class CNN(nn.Module):
    """Blocks of a convolution, ReLU and 2x2 max-pool, then two dense layers.

    Convolutions keep height and width, one block per entry of `channels`. Dropout,
    dense layer, ReLU, dropout and the layer of the logits follow.

    Three sizes are in use:
      small: 3x3, 16-32, dense 128, for 8x8 images.
      paper: 3x3, 16-32-64, dense 500, dropout .3 (FedSDP's public code, EMNIST).
      LEAF: 5x5, 32-64, dense 2048 (arXiv 1812.01097, FEMNIST).
    """

    num_classes: int
    channels: tuple[int, ...]
    kernel_size: int
    hidden: int
    kernels: Kernels
    dropout_rate: float = 0.0

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        dropout = nn.Dropout(self.dropout_rate, deterministic=not train)
        for features in self.channels:
            x = ConvReluPool(features, self.kernel_size, kernels=self.kernels)(x)
        x = dropout(x.reshape(len(x), -1))
        x = dropout(nn.relu(Dense(self.hidden, kernels=self.kernels)(x)))
        return Dense(self.num_classes, kernels=self.kernels)(x)


class BasicBlock(nn.Module):
    """relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)), 3x3 convolutions."""

    features: int
    stride: int
    norm: Callable[[], nn.Module]
    kernels: Kernels

    @nn.compact
    def __call__(self, x: Array) -> Array:
        conv = partial(_Conv, self.features, kernels=self.kernels)
        y = conv(3, self.stride)(x)
        y = nn.relu(self.norm()(y))
        y = self.norm()(conv(3)(y))
        if x.shape != y.shape:
            x = self.norm()(conv(1, self.stride)(x))
        return nn.relu(y + x)


class ResNet18(nn.Module):
    """Stem, four stages of two blocks (64-128-256-512), global mean, logits.

    For small images (He et al. 2016): a 3x3 stem and no first max-pool.

    Attributes:
      normalization: by whether it trains, the layer. Batch normalisation keeps running
        statistics (momentum .1 in PyTorch's sense), which a client uploads without
        noise; group normalisation (32 groups) keeps none.
    """

    num_classes: int
    normalization: Callable[[bool], Callable[[], nn.Module]]
    kernels: Kernels

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        norm = self.normalization(train)
        x = _Conv(64, 3, kernels=self.kernels)(x)
        x = nn.relu(norm()(x))
        for features, first_stride in _STAGES:
            for stride in (first_stride, 1):
                x = BasicBlock(features, stride, norm, self.kernels)(x)
        logits = Dense(self.num_classes, kernels=self.kernels)
        return logits(jnp.mean(x, axis=(1, 2)))


_NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "mlp": MLP,
    "small_cnn": partial(CNN, channels=(16, 32), kernel_size=3, hidden=128),
    "paper_cnn": partial(
        CNN, channels=(16, 32, 64), kernel_size=3, hidden=500, dropout_rate=0.3
    ),
    "leaf_cnn": partial(CNN, channels=(32, 64), kernel_size=5, hidden=2048),
    "resnet18": partial(
        ResNet18,
        normalization=lambda train: partial(
            nn.BatchNorm, use_running_average=not train, momentum=0.9, epsilon=1e-5
        ),
    ),
    "resnet18_gn": partial(ResNet18, normalization=lambda train: GroupNorm),
}


@cache  # equal models are one object, so that programs can be shared
def make_model(
    name: str,
    *,
    num_classes: int,
    kernels: Kernels = "cpu",
    shares: tuple[float, ...] = (),
) -> Model:
    """Builds a model by name; it adapts to the shape of the example given to `init`.

    The numbers of parameters are in tests/models/test_networks.py.

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
        model = from_linen(Linear(num_classes, shares))
        return model._replace(gradient_scale=gradient_scale)
    return from_linen(_NETWORKS[name](num_classes=num_classes, kernels=kernels))
