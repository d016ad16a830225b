"""Features that are computed once and take the images' place."""

import dataclasses
import pathlib
import shutil
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stores import digits_store
from tiny_files import make

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.federation import federated_data, loading
from fedsvp_jax.models import kept_features as kept
from fedsvp_jax.models import make_model, scattering


def pictures(**changes: Any) -> Any:
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 256, (16, 8, 8, 1), np.uint8)
    return make(
        train_inputs=drawn[:12],
        train_labels=np.arange(12, dtype=np.int32) % 2,
        test_inputs=drawn[12:],
        test_labels=np.arange(4, dtype=np.int32) % 2,
        num_classes=2,
        train_writers=None,
        columns={},
        **changes,
    )


def test_every_image_becomes_its_own_features(tmp_path: pathlib.Path) -> None:
    images = pictures()
    found = kept.of_images("scatter_linear", images, tmp_path)
    extract = jax.jit(scattering.scattering_features)
    for mine, pixels in (
        (found.train_inputs, images.train_inputs),
        (found.test_inputs, images.test_inputs),
    ):
        np.testing.assert_allclose(mine, extract(pixels), atol=1e-3)
    np.testing.assert_array_equal(found.train_labels, images.train_labels)
    np.testing.assert_array_equal(found.test_labels, images.test_labels)


def test_features_are_computed_once_and_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kept.of_images("scatter_linear", pictures(), tmp_path)
    (file,) = tmp_path.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(kept, "_compute", None)
        again = kept.of_images("scatter_linear", pictures(), tmp_path)
    assert again.fingerprint == first.fingerprint
    other = pictures()
    other.test_inputs[0, 0, 0] ^= 1
    kept.of_images("scatter_linear", other, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert file.is_file()


def test_an_interrupted_computation_leaves_no_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pathlib.Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept.of_images("scatter_linear", pictures(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_images_without_whole_windows_are_refused() -> None:
    for shape in ((8, 12, 1), (10, 10, 1), (4, 4, 3)):
        with pytest.raises(ValueError, match="a multiple of 4 and at least 8"):
            kept.make_extractor("scatter_linear", shape)


def test_a_data_set_is_loaded_as_features(tmp_path: pathlib.Path) -> None:
    config = resolve(
        ExperimentConfig(model="scatter_linear", features_dir=str(tmp_path))
    )
    found = loading.load_dataset(config)
    assert found.example_shape == (81 * 2 * 2,)
    assert found.name == "digits"
    plain = loading.load_dataset(resolve(ExperimentConfig()))
    np.testing.assert_array_equal(found.train_labels, plain.train_labels)


@pytest.mark.hole
def test_a_large_file_is_told_of_before_it_is_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.7 GB were written without a question."""
    monkeypatch.setattr(kept, "_LARGE", 16 * 81 * 4 * 4 - 1)
    monkeypatch.setattr(kept, "in_batches", None)  # so that nothing is computed
    told = pytest.warns(UserWarning, match=r"kept: .* GiB in .*features_dir")
    with told, pytest.raises(TypeError):
        kept.of_images("scatter_linear", pictures(), tmp_path)
    room = SimpleNamespace(free=16 * 81 * 4 * 4 - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    with pytest.raises(OSError, match=r"GiB free, and the features of .* take"):
        kept.of_images("scatter_linear", pictures(), tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_makes_no_features_is_refused(tmp_path: pathlib.Path) -> None:
    config = resolve(ExperimentConfig(dataset="cifar10", model="scatter_linear"))
    assert config.augment is False
    asked = dataclasses.replace(config, dataset="digits", augment=True)
    with pytest.raises(ValueError, match="augment does not go with model scatter"):
        loading.load_dataset(asked)
    digits_store(tmp_path / "store")
    store = {"dataset": "store", "data_dir": str(tmp_path / "store")}
    with pytest.raises(ValueError, match="needs the images in memory"):
        federated_data.load_data(
            resolve(ExperimentConfig(**store, model="scatter_linear"))
        )
    model = make_model("scatter_linear", num_classes=2)
    with pytest.raises(ValueError, match=r"takes vectors, got .*\(8, 8, 1\)"):
        model.init(jax.random.key(0), jnp.zeros((1, 8, 8, 1)))


def test_kept_features_that_were_changed_are_refused(tmp_path: pathlib.Path) -> None:
    """With one half of the file zeroed, training went on without a word."""
    kept.of_images("scatter_linear", pictures(), tmp_path)
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    file.write_bytes(content)
    with pytest.raises(ValueError, match="differs from the SHA-256"):
        kept.of_images("scatter_linear", pictures(), tmp_path)
