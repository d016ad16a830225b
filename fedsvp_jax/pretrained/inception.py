"""Inception-v3 (Szegedy et al. 2016) up to its last pooling, for inference only.

It computes the features of the Fréchet inception distance. Two sets of weights are in
use, and their networks differ: those of the original distance (TensorFlow's of
2015-12-05, which pytorch-fid distributes) and those of torchvision.
"""

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedsvp_jax.models.batches import in_batches
from fedsvp_jax.pretrained.tensor_files import read_tensors
from fedsvp_jax.pretrained.transplant import transplant
from fedsvp_jax.structs import Array, Params

SIDE = 299  # the network was trained on images of this height and width
NUM_FEATURES = 2048
_BATCH = 32  # images per call, with 0.4 GB of activations
_UNUSED = re.compile(r"^(AuxLogits|fc)\.|\.num_batches_tracked$")
_FLAX_TO_TORCH = {
    "kernel": "weight",
    "scale": "weight",
    "bias": "bias",
    "mean": "running_mean",
    "var": "running_var",
}

_Pool = Callable[[Array], Array]
_halve: _Pool = partial(nn.max_pool, window_shape=(3, 3), strides=(2, 2))
_max: _Pool = partial(nn.max_pool, window_shape=(3, 3), strides=(1, 1), padding="SAME")


def _average_with_padding(x: Array) -> Array:
    """3x3 means over the pixels and the zeros around the image."""
    return nn.pool(x, 0.0, lax.add, (3, 3), (1, 1), "SAME") / 9


def _average(x: Array) -> Array:
    """3x3 means over the pixels only, without the padding."""
    inside = _average_with_padding(jnp.ones((1, *x.shape[1:3], 1), x.dtype))
    return _average_with_padding(x) / inside


class BasicConv2d(nn.Module):
    """relu(BatchNorm(conv(x))) with stored statistics."""

    features: int
    kernel_size: tuple[int, int]
    stride: int = 1
    padding: str = "SAME"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = nn.Conv(
            self.features,
            self.kernel_size,
            (self.stride, self.stride),
            self.padding,
            use_bias=False,
            precision=lax.Precision.HIGHEST,
            name="conv",
        )(x)
        norm = nn.BatchNorm(use_running_average=True, epsilon=1e-3, name="bn")
        return nn.relu(norm(x))


def _conv(
    x: Array, name: str, features: int, height: int, width: int | None = None
) -> Array:
    """A convolution that keeps the size; the kernel is square if `width` is None."""
    return BasicConv2d(features, (height, width or height), name=name)(x)


def _conv_halving(x: Array, name: str, features: int) -> Array:
    return BasicConv2d(features, (3, 3), 2, "VALID", name=name)(x)


class InceptionA(nn.Module):
    """Four branches: 1x1, 5x5, two 3x3, and pooling."""

    pool_features: int
    pool: _Pool

    @nn.compact
    def __call__(self, x: Array) -> Array:
        five = _conv(x, "branch5x5_1", 48, 1)
        five = _conv(five, "branch5x5_2", 64, 5)
        three = _conv(x, "branch3x3dbl_1", 64, 1)
        three = _conv(three, "branch3x3dbl_2", 96, 3)
        three = _conv(three, "branch3x3dbl_3", 96, 3)
        one = _conv(x, "branch1x1", 64, 1)
        pooled = _conv(self.pool(x), "branch_pool", self.pool_features, 1)
        return jnp.concatenate([one, five, three, pooled], axis=-1)


class InceptionB(nn.Module):
    """Halves height and width; three branches: 3x3, two 3x3, and pooling."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        double = _conv(x, "branch3x3dbl_1", 64, 1)
        double = _conv(double, "branch3x3dbl_2", 96, 3)
        double = _conv_halving(double, "branch3x3dbl_3", 96)
        single = _conv_halving(x, "branch3x3", 384)
        return jnp.concatenate([single, double, _halve(x)], axis=-1)


class InceptionC(nn.Module):
    """Branches 1x1, 7x7, two 7x7 (each as a row and a column), and pooling."""

    inner: int
    pool: _Pool

    @nn.compact
    def __call__(self, x: Array) -> Array:
        single = _conv(x, "branch7x7_1", self.inner, 1)
        single = _conv(single, "branch7x7_2", self.inner, 1, 7)
        single = _conv(single, "branch7x7_3", 192, 7, 1)
        double = _conv(x, "branch7x7dbl_1", self.inner, 1)
        double = _conv(double, "branch7x7dbl_2", self.inner, 7, 1)
        double = _conv(double, "branch7x7dbl_3", self.inner, 1, 7)
        double = _conv(double, "branch7x7dbl_4", self.inner, 7, 1)
        double = _conv(double, "branch7x7dbl_5", 192, 1, 7)
        one = _conv(x, "branch1x1", 192, 1)
        pooled = _conv(self.pool(x), "branch_pool", 192, 1)
        return jnp.concatenate([one, single, double, pooled], axis=-1)


class InceptionD(nn.Module):
    """Halves height and width; branches 3x3, 7x7 with 3x3, and pooling."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        three = _conv(x, "branch3x3_1", 192, 1)
        three = _conv_halving(three, "branch3x3_2", 320)
        seven = _conv(x, "branch7x7x3_1", 192, 1)
        seven = _conv(seven, "branch7x7x3_2", 192, 1, 7)
        seven = _conv(seven, "branch7x7x3_3", 192, 7, 1)
        seven = _conv_halving(seven, "branch7x7x3_4", 192)
        return jnp.concatenate([three, seven, _halve(x)], axis=-1)


class InceptionE(nn.Module):
    """Branches 1x1, 3x3, two 3x3 (split into row and column), and pooling."""

    pool: _Pool

    @nn.compact
    def __call__(self, x: Array) -> Array:
        single = _conv(x, "branch3x3_1", 384, 1)
        double = _conv(x, "branch3x3dbl_1", 448, 1)
        double = _conv(double, "branch3x3dbl_2", 384, 3)
        branches = [
            _conv(x, "branch1x1", 320, 1),
            _conv(single, "branch3x3_2a", 384, 1, 3),
            _conv(single, "branch3x3_2b", 384, 3, 1),
            _conv(double, "branch3x3dbl_3a", 384, 1, 3),
            _conv(double, "branch3x3dbl_3b", 384, 3, 1),
            _conv(self.pool(x), "branch_pool", 192, 1),
        ]
        return jnp.concatenate(branches, axis=-1)


class InceptionV3(nn.Module):
    """(batch, height, width, 3) in [-1, 1], sides >= 75, -> (batch, 2048).

    Attributes:
      fid: whether it is the network of the original distance, whose means near an edge
        leave out the padding and whose last block takes maxima, or torchvision's.
    """

    fid: bool

    @nn.compact
    def __call__(self, x: Array) -> Array:
        average = _average if self.fid else _average_with_padding
        x = _conv_halving(x, "Conv2d_1a_3x3", 32)
        x = BasicConv2d(32, (3, 3), padding="VALID", name="Conv2d_2a_3x3")(x)
        x = _halve(_conv(x, "Conv2d_2b_3x3", 64, 3))
        x = _conv(x, "Conv2d_3b_1x1", 80, 1)
        x = BasicConv2d(192, (3, 3), padding="VALID", name="Conv2d_4a_3x3")(x)
        x = _halve(x)
        x = InceptionA(32, average, name="Mixed_5b")(x)
        x = InceptionA(64, average, name="Mixed_5c")(x)
        x = InceptionA(64, average, name="Mixed_5d")(x)
        x = InceptionB(name="Mixed_6a")(x)
        x = InceptionC(128, average, name="Mixed_6b")(x)
        x = InceptionC(160, average, name="Mixed_6c")(x)
        x = InceptionC(160, average, name="Mixed_6d")(x)
        x = InceptionC(192, average, name="Mixed_6e")(x)
        x = InceptionD(name="Mixed_7a")(x)
        x = InceptionE(average, name="Mixed_7b")(x)
        x = InceptionE(_max if self.fid else average, name="Mixed_7c")(x)
        return jnp.mean(x, axis=(1, 2))


@dataclasses.dataclass(frozen=True)
class Extractor:
    """Computes features; a distance between them is named after `name`."""

    name: str
    network: InceptionV3
    variables: Params

    def __call__(self, images: np.ndarray | Array) -> np.ndarray:
        """(n, height, width, 1 or 3) floats in [0, 1] -> (n, 2048) float32.

        Grey is repeated to three channels. Images are resized to 299x299 as
        pytorch-fid does (bilinear, pixel centres, no smoothing before shrinking) and
        scaled to [-1, 1].

        Raises:
          ValueError: if there is no image, or one of another shape or range.
        """
        images = np.asarray(images, np.float32)
        if images.ndim != 4 or not len(images) or images.shape[-1] not in (1, 3):
            raise ValueError(
                "images must have shape (n >= 1, height, width, 1 or 3), "
                f"got {images.shape}"
            )
        low, high = float(images.min()), float(images.max())
        if not 0 <= low <= high <= 1:
            raise ValueError(f"images must lie in [0, 1], got [{low:g}, {high:g}]")
        extract = partial(_extract, self.network, self.variables)
        return np.concatenate(list(in_batches(extract, images, _BATCH)))


@partial(jax.jit, static_argnums=0)
def _extract(network: InceptionV3, variables: Params, images: Array) -> Array:
    features: Any = network.apply(variables, preprocess(images))
    return features


def preprocess(images: Array) -> Array:
    """(n, height, width, 1 or 3) in [0, 1] -> (n, 299, 299, 3) in [-1, 1]."""
    shape = (len(images), SIDE, SIDE, images.shape[-1])
    resized = jax.image.resize(images, shape, "bilinear", antialias=False)
    return jnp.broadcast_to(2 * resized - 1, (*shape[:3], 3))


def load_inception(path: str | Path) -> Extractor:
    """The extractor with the weights of a file.

    Args:
      path: pt_inception-2015-12-05-*.pth of pytorch-fid or inception_v3_google-*.pth
        of torchvision (read by PyTorch, which must be installed), or either saved
        again as `.safetensors`. The classifier tells them apart: it has 1008 classes
        in the first file and 1000 in the second.

    Returns:
      An extractor named "Inception-v3 pool3" (weights of pytorch-fid, so that distances
      are FIDs) or "torchvision Inception-v3 pool3" (other weights, so that distances
      cannot be compared with published FIDs).

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: `read_tensors` cannot read the file, or its tensors are not those of
        the network.
    """
    path = Path(path)
    tensors = read_tensors(path)
    classes = len(tensors["fc.weight"]) if "fc.weight" in tensors else None
    if classes not in (1000, 1008):
        raise ValueError(
            f"{path} must hold fc.weight with 1008 rows (pytorch-fid) or 1000 "
            f"(torchvision), got {classes}"
        )
    network = InceptionV3(fid=classes == 1008)
    shapes = jax.eval_shape(
        network.init, jax.random.key(0), jnp.zeros((1, SIDE, SIDE, 3), jnp.float32)
    )
    variables = transplant(
        shapes,
        tensors,
        name_of=lambda path: ".".join((*path[1:-1], _FLAX_TO_TORCH[path[-1]])),
        kernel_layout=lambda kernel: kernel.transpose(2, 3, 1, 0),
        unused=_UNUSED,
        source=str(path),
    )
    origin = "" if network.fid else "torchvision "
    return Extractor(f"{origin}Inception-v3 pool3", network, variables)
