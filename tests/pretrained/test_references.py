"""Networks that load others' weights, beside the libraries that these come from.

The other side runs in .venv-references (`make test-references` builds it).
"""

import functools
import pathlib
import subprocess

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from fedsvp_jax import pretrained
from fedsvp_jax.pretrained import lite0

pytestmark = [pytest.mark.across("networks against other libraries'"), pytest.mark.slow]

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = ROOT / ".venv-references" / "bin" / "python"
VITS = ("base", "tiny", "no_qkv_bias", "no_classifier")


def run_reference(script: str, folder: pathlib.Path) -> pathlib.Path:
    assert PYTHON.exists(), "make test-references builds the other libraries' place"
    command = [PYTHON, ROOT / "tests" / "references" / script, folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.fixture(scope="module")
def vits(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return run_reference("vit_in_transformers.py", tmp_path_factory.mktemp("vit"))


def channels_last(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("name", VITS)
def test_a_vit_gives_the_logits_and_features_of_transformers(
    vits: pathlib.Path, name: str
) -> None:
    reference = load_file(vits / name / "reference.safetensors")
    module, params, preprocessing = pretrained.load_hugging_face(vits / name)
    inputs = channels_last(reference["inputs"])
    for network, expected in (
        (module, "features" if name == "no_classifier" else "logits"),
        (module.clone(num_classes=0), "features"),
    ):
        apply = jax.jit(functools.partial(network.apply, train=False))
        outputs = apply({"params": params}, inputs)
        assert np.abs(reference[expected]).max() > 0.5
        np.testing.assert_allclose(outputs, reference[expected], rtol=0, atol=1e-4)
    pixels = channels_last(reference["images"]).astype(np.float32) / np.float32(255)
    # transformers rounds to whole 1/255 after the columns and again after the rows.
    away = np.abs(preprocessing(pixels) - inputs) * np.array(preprocessing.std)
    assert away.max() <= 1.05 / 255


def assert_close(found: jax.Array, expected: np.ndarray, name: str) -> None:
    """To 1e-4 of the largest number."""
    scale = np.abs(expected).max()
    assert scale > 0.1, name
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * scale, err_msg=name)


def test_lite0_gives_the_features_of_pytorchs(tmp_path: pathlib.Path) -> None:
    folder = run_reference("lite0_in_torch.py", tmp_path)
    reference = load_file(folder / "reference.safetensors")
    weights = lite0.load_weights(folder / "weights.safetensors")
    for side in (128, 224):
        images = channels_last(reference[f"images_{side}"])
        found = jax.jit(lite0.features)(weights, images)
        assert_close(found, reference[f"features_{side}"], f"features at {side}")
    pixels = channels_last(reference["pixels"]).astype(np.float32) / np.float32(255)
    enlarged = jax.image.resize(pixels, (2, 128, 128, 3), "bilinear")
    assert_close(enlarged, channels_last(reference["enlarged"]), "enlarged")


def test_what_torch_saves_is_read_and_runs_no_code(tmp_path: pathlib.Path) -> None:
    run_reference("torch_files.py", tmp_path)
