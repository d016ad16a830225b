"""The Vision Transformer, and Hugging Face checkpoints of it made up here."""

import functools
import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layer_checks import quick_jit
from safetensors.numpy import save_file

from fedsvp_jax import models, pretrained
from fedsvp_jax.pretrained.vit import ViT

CONFIG = {
    "model_type": "vit",
    "hidden_act": "gelu",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "image_size": 12,
    "patch_size": 4,
    "num_channels": 3,
}
# As transformers writes them, in the order of PyTorch's modules.
LAYER = {
    "attention.attention.query": (8, 8),
    "attention.attention.key": (8, 8),
    "attention.attention.value": (8, 8),
    "attention.output.dense": (8, 8),
    "intermediate.dense": (12, 8),
    "output.dense": (8, 12),
    "layernorm_before": (8,),
    "layernorm_after": (8,),
}


def tensors_of_a_checkpoint() -> dict[str, np.ndarray]:
    """Random tensors under the names of ViTForImageClassification, 5 classes."""
    shapes: dict[str, tuple[int, ...]] = {
        "vit.embeddings.cls_token": (1, 1, 8),
        "vit.embeddings.position_embeddings": (1, 10, 8),
    }
    weights = {
        "vit.embeddings.patch_embeddings.projection": (8, 3, 4, 4),
        **{f"vit.encoder.layer.{i}.{n}": s for i in range(2) for n, s in LAYER.items()},
        "vit.layernorm": (8,),
        "classifier": (5, 8),
    }
    for name, shape in weights.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    random = np.random.default_rng(0)
    return {n: random.normal(size=s).astype(np.float32) for n, s in shapes.items()}


def write(folder: pathlib.Path, tensors: dict[str, np.ndarray], **config) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(1).uniform(size=(2, 12, 12, 3)).astype(np.float32)


def evaluate(module: ViT, params, images):
    return quick_jit(functools.partial(module.apply, train=False))(
        {"params": params}, images
    )


@pytest.mark.parametrize(
    ("shape", "patches"), [((8, 8, 1), 16), ((28, 28, 1), 49), ((32, 32, 3), 64)]
)
def test_patches_suit_small_images(shape, patches):
    params, stats = jax.eval_shape(
        models.make_model("vit", num_classes=10).init,
        jax.random.key(0),
        jnp.zeros((1, *shape), jnp.float32),
    )
    assert params["position_embeddings"].shape == (1, patches + 1, 64)
    assert params["classifier"]["kernel"].shape == (10, 64)
    assert not stats


def test_lanes_of_a_vit_compile_to_products_without_convolutions():
    model = models.make_model("vit", num_classes=10)
    x = jax.ShapeDtypeStruct((2, 8, 8, 1), jnp.float32)
    key = jax.eval_shape(lambda: jax.random.key(0))
    params, _ = jax.eval_shape(model.init, key, x)
    lanes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((3, *leaf.shape), leaf.dtype), params
    )

    def gradient(params, x):
        return jax.grad(
            lambda p: jnp.sum(model.apply(p, {}, x, train=True, key=None)[0])
        )(params)

    lowered = jax.jit(jax.vmap(gradient, in_axes=(0, None))).lower(lanes, x)
    assert "convolution" not in lowered.as_text()
    assert "dot_general" in lowered.as_text()


def test_a_checkpoint_lands_where_its_names_say(tmp_path, images):
    tensors = tensors_of_a_checkpoint()
    write(tmp_path, tensors)
    module, params, preprocessing = pretrained.load_hugging_face(tmp_path)
    second = params["layer_1"]
    for found, name in (
        (params["cls_token"], "embeddings.cls_token"),
        (second["query"]["kernel"], "encoder.layer.1.attention.attention.query.weight"),
        (second["value"]["bias"], "encoder.layer.1.attention.attention.value.bias"),
        (second["output"]["kernel"], "encoder.layer.1.output.dense.weight"),
        (second["layernorm_after"]["scale"], "encoder.layer.1.layernorm_after.weight"),
    ):
        np.testing.assert_array_equal(found, tensors[f"vit.{name}"])
    projection = tensors["vit.embeddings.patch_embeddings.projection.weight"]
    expected = jax.lax.conv_general_dilated(
        images, projection, (4, 4), "VALID", dimension_numbers=("NHWC", "OIHW", "NHWC")
    )
    patches = module.apply({"params": params}, images, method="_patches")
    embedded = patches @ params["patch_embedding"]["kernel"].T
    np.testing.assert_allclose(embedded, expected.reshape(2, 9, 8), atol=1e-5)
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == sum(
        tensor.size for tensor in tensors.values()
    )
    logits = evaluate(module, params, preprocessing(images))
    assert logits.shape == (2, 5) and logits.dtype == jnp.float32
    features = evaluate(module.clone(num_classes=0), params, preprocessing(images))
    np.testing.assert_allclose(
        logits,
        features @ tensors["classifier.weight"].T + tensors["classifier.bias"][None],
        atol=1e-5,
    )


def test_weights_of_half_precision_are_read_as_float32(tmp_path):
    tensors = tensors_of_a_checkpoint()
    halves = {name: tensor.astype(jnp.bfloat16) for name, tensor in tensors.items()}
    write(tmp_path, halves)
    kernel = pretrained.load_hugging_face(tmp_path).params["classifier"]["kernel"]
    assert kernel.dtype == jnp.float32
    np.testing.assert_array_equal(
        kernel, halves["classifier.weight"].astype(np.float32)
    )


def test_a_checkpoint_without_classifier_gives_features(tmp_path, images):
    tensors = {
        name.removeprefix("vit."): tensor
        for name, tensor in tensors_of_a_checkpoint().items()
        if not name.startswith("classifier")
    }
    unused = {"pooler.dense.weight": np.zeros((8, 8), np.float32)}
    write(tmp_path, {**tensors, **unused})
    module, params, preprocessing = pretrained.load_hugging_face(tmp_path)
    assert "classifier" not in params
    assert evaluate(module, params, preprocessing(images)).shape == (2, 8)


def test_file_folder_and_cached_name_are_the_same_checkpoint(tmp_path, monkeypatch):
    cached = tmp_path / "hub" / "models--someone--small-vit"
    folder = cached / "snapshots" / "0123abcd"
    write(folder, tensors_of_a_checkpoint())
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0123abcd")
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    first, *others = (
        pretrained.load_hugging_face(given)
        for given in ("someone/small-vit", folder, folder / "model.safetensors")
    )
    for other in others:
        assert other.module == first.module
        jax.tree.map(np.testing.assert_array_equal, other.params, first.params)
    missing = f"no checkpoint of that name in {tmp_path / 'hub'}"
    with pytest.raises(FileNotFoundError, match=missing):
        pretrained.load_hugging_face("someone/other")


def test_preprocessing_resizes_repeats_grey_and_normalises(tmp_path):
    write(tmp_path, tensors_of_a_checkpoint())
    settings = {"image_mean": [0.5, 0.25, 0.0], "image_std": [0.5, 0.25, 1.0]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    preprocessing = pretrained.load_hugging_face(tmp_path).preprocessing
    grey = jnp.full((2, 28, 20, 1), 0.75, jnp.float32)
    expected = np.broadcast_to(np.float32([0.5, 2.0, 0.75]), (2, 12, 12, 3))
    np.testing.assert_allclose(preprocessing(grey), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"1 or 3\), got \(2, 28, 20, 2\)"):
        preprocessing(jnp.zeros((2, 28, 20, 2), jnp.float32))
    settings["image_std"] = [1.0]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match="image_std must have 3 values"):
        pretrained.load_hugging_face(tmp_path)


def change(tensors, config, *, drop=None, add=None, **settings):
    tensors.pop(drop, None)
    tensors.update(add or {})
    config.update(settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"drop": "vit.layernorm.bias"},
            r"lacks 1 of 40 tensors: layernorm\.bias",
        ),
        (
            {"add": {"vit.embeddings.distillation_token": np.zeros(8, np.float32)}},
            r"has 1 tensors that the network has no place for: embeddings\.distil",
        ),
        (
            {"add": {"vit.layernorm.weight": np.zeros(9, np.float32)}},
            r"layernorm\.weight has shape \(9,\).* the network needs \(8,\)",
        ),
        ({"image_size": 16}, r"position_embeddings has shape \(1, 10, 8\)"),
        ({"num_hidden_layers": 3}, r"lacks 16 of 56 tensors: encoder\.layer\.2\."),
        ({"num_attention_heads": 3}, "must be a multiple of 3 heads, got 8"),
        ({"patch_size": 5}, "patches of 5x5 must divide the image, got 12x12"),
        ({"patch_size": 0}, "patch_size must be a whole number >= 1, got 0"),
        ({"model_type": "deit"}, "model_type must be 'vit', got 'deit'"),
        ({"hidden_act": "gelu_new"}, "hidden_act must be 'gelu', got 'gelu_new'"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, changes, message):
    tensors, config = tensors_of_a_checkpoint(), {}
    change(tensors, config, **changes)
    write(tmp_path, tensors, **config)
    with pytest.raises(ValueError, match=message):
        pretrained.load_hugging_face(tmp_path)


def test_files_that_are_missing_or_damaged_are_named(tmp_path, monkeypatch):
    write(tmp_path, tensors_of_a_checkpoint())
    file, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "safetensors.numpy", None)
        with pytest.raises(ValueError, match="needs safetensors, which is not"):
            pretrained.load_hugging_face(tmp_path)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match="is not a safetensors file"):
        pretrained.load_hugging_face(tmp_path)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"no checkpoint file .*safetensors"):
        pretrained.load_hugging_face(tmp_path)
    config.write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is not JSON"):
        pretrained.load_hugging_face(tmp_path)
    config.unlink()
    with pytest.raises(FileNotFoundError, match=r"needs .*config\.json"):
        pretrained.load_hugging_face(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=r"must be a \.safetensors file"):
        pretrained.load_hugging_face(tmp_path / "pytorch_model.bin")


def test_examples_that_are_no_images_are_refused():
    model = models.make_model("vit", num_classes=2)
    with pytest.raises(ValueError, match=r"vit takes images, got .* shape \(14,\)"):
        model.init(jax.random.key(0), jnp.zeros((1, 14), jnp.float32))
