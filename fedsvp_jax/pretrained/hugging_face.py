"""Hugging Face's Vision Transformers, from a file or from its cache folder."""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax.pretrained.tensor_files import read_tensors
from fedsvp_jax.pretrained.transplant import transplant
from fedsvp_jax.pretrained.vit import ViT
from fedsvp_jax.structs import Array, Params

# Defaults of transformers' ViTConfig, for what config.json leaves out.
_DEFAULTS = {
    "image_size": 224,
    "num_channels": 3,
    "patch_size": 16,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "qkv_bias": True,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}
_UNUSED = re.compile(r"^(pooler\.|embeddings\.mask_token$|decoder\.)")
_NAMES = {
    "cls_token": "embeddings.cls_token",
    "position_embeddings": "embeddings.position_embeddings",
    "patch_embedding": "embeddings.patch_embeddings.projection",
    "query": "attention.attention.query",
    "key": "attention.attention.key",
    "value": "attention.attention.value",
    "attention_output": "attention.output.dense",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "kernel": "weight",
    "scale": "weight",
}


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """How a checkpoint's images are prepared for the network."""

    image_size: int
    num_channels: int
    mean: tuple[float, ...]  # by channel
    std: tuple[float, ...]

    def __call__(self, images: Array) -> Array:
        """(n, height, width, 1 or num_channels) in [0, 1] -> the network's input.

        A single channel is repeated. Images are resized bilinearly, smoothed where they
        shrink as Pillow does, and become (x - mean) / std. transformers'
        ViTImageProcessor does the same with bytes, so it rounds to 1/255 after resizing
        the columns and after resizing the rows.

        Raises:
          ValueError: the images have another number of channels.
        """
        if images.ndim != 4 or images.shape[-1] not in (1, self.num_channels):
            raise ValueError(
                f"images must have shape (n, height, width, 1 or {self.num_channels}), "
                f"got {images.shape}"
            )
        side = self.image_size
        shape = (len(images), side, side, images.shape[-1])
        resized = jax.image.resize(images, shape, "bilinear", antialias=True)
        resized = jnp.broadcast_to(resized, (*shape[:3], self.num_channels))
        mean, std = (
            jnp.asarray(values, jnp.float32)[None, None, None]
            for values in (self.mean, self.std)
        )
        return (resized - mean) / std


class PretrainedViT(NamedTuple):
    """`module.apply({"params": params}, preprocessing(images), train=False)`.

    It returns logits if the checkpoint has a classifier, and features otherwise.
    `module.clone(num_classes=0)` with the same parameters always returns features.
    """

    module: ViT
    params: Params
    preprocessing: Preprocessing


def load_hugging_face(checkpoint: str | Path) -> PretrainedViT:
    """Loads a ViT checkpoint; nothing is downloaded.

    Args:
      checkpoint: a `.safetensors` file with config.json beside it, a folder with
        model.safetensors and config.json, or a name such as
        "google/vit-base-patch16-224" that Hugging Face's cache folder holds
        ($HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub). Mean and
        standard deviation of the images are read from preprocessor_config.json in the
        same folder; without it both are 0.5.

    Raises:
      FileNotFoundError: there is no such file, folder or cached name.
      ValueError: it is not a ViT with exact GELU, its tensors do not fit, or
        safetensors is not installed.
    """
    file = _find(checkpoint)
    config = _read_config(file.parent / "config.json")
    tensors = {
        name.removeprefix("vit."): tensor for name, tensor in read_tensors(file).items()
    }
    head = tensors.get("classifier.weight")
    fields = {field.name for field in dataclasses.fields(ViT)} & config.keys()
    module = ViT(
        num_classes=0 if head is None else len(head),
        **{name: config[name] for name in fields},
    )
    side, channels = config["image_size"], config["num_channels"]
    example = jax.ShapeDtypeStruct((1, side, side, channels), jnp.float32)
    shapes = jax.eval_shape(
        lambda x: module.init(jax.random.key(0), x, train=False)["params"], example
    )
    params = transplant(
        shapes,
        tensors,
        name_of=_name_of,
        kernel_layout=lambda kernel: kernel.reshape(len(kernel), -1),
        unused=_UNUSED,
        source=str(file),
    )
    return PretrainedViT(module, params, _read_preprocessing(file.parent, config))


def _find(checkpoint: str | Path) -> Path:
    """The file of weights."""
    path = Path(checkpoint)
    if path.is_file():
        if path.suffix != ".safetensors":
            raise ValueError(
                f"a ViT checkpoint must be a .safetensors file, got {path}"
            )
        return path
    if path.is_dir():
        return path / "model.safetensors"
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub")).expanduser()
    folder = cache / f"models--{str(checkpoint).replace('/', '--')}"
    revision = folder / "refs" / "main"
    if not revision.is_file():
        raise FileNotFoundError(
            f"no file or folder {checkpoint}, and no checkpoint of that name in {cache}"
        )
    return folder / "snapshots" / revision.read_text().strip() / "model.safetensors"


def _name_of(path: tuple[str, ...]) -> str:
    """("layer_0", "query", "kernel") -> encoder.layer.0.attention.attention.query…"""
    parts = [_NAMES.get(part, part) for part in path]
    parts[0] = re.sub(r"^layer_(\d+)$", r"encoder.layer.\1", parts[0])
    return ".".join(parts)


def _read_config(path: Path) -> dict[str, Any]:
    config = {**_DEFAULTS, **_read_json(path)}
    for key, only in (("model_type", "vit"), ("hidden_act", "gelu")):
        if config.get(key) != only:
            raise ValueError(f"{path}: {key} must be {only!r}, got {config.get(key)!r}")
    for key, default in _DEFAULTS.items():
        number = isinstance(config[key], int) and config[key] > 0
        if type(default) is int and not number:
            raise ValueError(
                f"{path}: {key} must be a whole number >= 1, got {config[key]!r}"
            )
    return config


def _read_preprocessing(folder: Path, config: dict[str, Any]) -> Preprocessing:
    path = folder / "preprocessor_config.json"
    given = _read_json(path) if path.is_file() else {}
    channels = config["num_channels"]
    mean, std = (
        tuple(given.get(key, [0.5] * channels)) for key in ("image_mean", "image_std")
    )
    if not len(mean) == len(std) == channels:
        raise ValueError(
            f"{path}: image_mean and image_std must have {channels} values"
        )
    return Preprocessing(config["image_size"], channels, mean, std)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise FileNotFoundError(f"a ViT checkpoint needs {path}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object")
    return content
