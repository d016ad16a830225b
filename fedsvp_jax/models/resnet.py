"""ResNet-18 for small images (He et al. 2016; 3x3 stem, no first max-pool)."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import flax.linen as nn
import jax.numpy as jnp

from fedsvp_jax.models.kernels import Kernels
from fedsvp_jax.models.layers import PYTORCH_UNIFORM, Conv, Dense
from fedsvp_jax.models.normalization import GroupNorm
from fedsvp_jax.structs import Array

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels, first stride
_EDGE = ((1, 1), (1, 1))


class BasicBlock(nn.Module):
    """relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)), 3x3 convolutions."""

    features: int
    stride: int
    norm: Callable[[], nn.Module]
    kernels: Kernels

    @nn.compact
    def __call__(self, x: Array) -> Array:
        conv = partial(
            Conv,
            self.features,
            kernels=self.kernels,
            kernel_init=PYTORCH_UNIFORM,
        )
        strides = (self.stride, self.stride)
        y = conv((3, 3), strides=strides, padding=_EDGE)(x)
        y = nn.relu(self.norm()(y))
        y = self.norm()(conv((3, 3), padding=_EDGE)(y))
        if x.shape != y.shape:
            x = self.norm()(conv((1, 1), strides=strides, padding="VALID")(x))
        return nn.relu(y + x)


class ResNet18(nn.Module):
    """Stem, four stages of two blocks (64-128-256-512), global mean, logits.

    Attributes:
      normalization: "batch" keeps running statistics (momentum .1 in PyTorch's
        sense), which a client uploads without noise; "group" (32 groups) keeps none.
    """

    num_classes: int
    normalization: Literal["batch", "group"]
    kernels: Kernels = "cpu"

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        norm: Callable[[], nn.Module]
        if self.normalization == "batch":
            norm = partial(
                nn.BatchNorm, use_running_average=not train, momentum=0.9, epsilon=1e-5
            )
        else:
            norm = GroupNorm
        x = Conv(
            64,
            (3, 3),
            padding=_EDGE,
            kernels=self.kernels,
            kernel_init=PYTORCH_UNIFORM,
        )(x)
        x = nn.relu(norm()(x))
        for features, first_stride in _STAGES:
            for stride in (first_stride, 1):
                x = BasicBlock(features, stride, norm, self.kernels)(x)
        logits = Dense(self.num_classes, kernels=self.kernels)
        return logits(jnp.mean(x, axis=(1, 2)))
