"""Inception-v3's features, with weights drawn here under PyTorch's names."""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from safetensors.numpy import save_file

from fedsvp_jax import pretrained
from fedsvp_jax.pretrained import inception
from fedsvp_jax.pretrained.inception import InceptionE, InceptionV3


@functools.cache
def shapes(*, fid: bool):
    return jax.eval_shape(
        InceptionV3(fid).init,
        jax.random.key(0),
        jnp.zeros((1, 75, 75, 3), jnp.float32),
    )


def state_dict(num_classes: int) -> dict[str, np.ndarray]:
    """Zeros under PyTorch's names: what a file of weights holds, and its leftovers."""
    state: dict[str, np.ndarray] = {}
    for path, leaf in traverse_util.flatten_dict(shapes(fid=False)).items():
        *modules, kind = path[1:]
        names = {"kernel": "weight", "scale": "weight", "bias": "bias"}
        name = ".".join([*modules, names.get(kind, f"running_{kind}")])
        shape = leaf.shape
        if kind == "kernel":
            height, width, inputs, outputs = shape
            shape = (outputs, inputs, height, width)
        state[name] = np.zeros(shape, np.float32)
        if kind == "mean":
            state[name.replace("running_mean", "num_batches_tracked")] = np.zeros(())
    state["fc.weight"] = np.zeros((num_classes, 2048), np.float32)
    state["AuxLogits.conv0.conv.weight"] = np.zeros((128, 768, 1, 1), np.float32)
    return state


@pytest.fixture
def reads(monkeypatch):
    """Has load_inception find a given state dict in place of a file's."""

    def give(state):
        monkeypatch.setattr(inception, "read_tensors", lambda path: state)
        return state

    return give


@pytest.mark.parametrize("fid", [True, False])
def test_the_network_has_torchvisions_size_and_features(fid):
    network = InceptionV3(fid)
    params = traverse_util.flatten_dict(shapes(fid=fid)["params"])
    # torchvision's 27,161,264 less its two heads, 5,375,696.
    assert sum(leaf.size for leaf in params.values()) == 21_785_568
    assert sum(path[-1] == "kernel" for path in params) == 94
    for side in (75, inception.SIDE):
        images = jnp.zeros((2, side, side, 3), jnp.float32)
        features = jax.eval_shape(network.apply, shapes(fid=fid), images)
        assert features.shape == (2, inception.NUM_FEATURES)
        assert features.dtype == jnp.float32


def test_the_pools_of_the_original_network_ignore_the_padding():
    ones = jnp.ones((1, 3, 3, 2), jnp.float32)
    expected = np.array([[4, 6, 4], [6, 9, 6], [4, 6, 4]]) / 9
    padded = inception._average_with_padding(ones)
    np.testing.assert_allclose(padded[0, :, :, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(inception._average(ones), ones, rtol=1e-6)
    np.testing.assert_array_equal(inception._max(-ones), -ones)


@pytest.mark.parametrize("fid", [True, False])
def test_the_last_block_takes_maxima_only_in_the_original_network(fid, monkeypatch):
    pools = []
    real = InceptionE.__call__

    def watched(self, x):
        pools.append((self.name, self.pool))
        return real(self, x)

    monkeypatch.setattr(InceptionE, "__call__", watched)
    jax.eval_shape(
        InceptionV3(fid).apply,
        shapes(fid=fid),
        jnp.zeros((1, 75, 75, 3), jnp.float32),
    )
    average = inception._average if fid else inception._average_with_padding
    last = inception._max if fid else average
    assert pools == [("Mixed_7b", average), ("Mixed_7c", last)]


def test_images_are_resized_and_scaled_as_pytorch_fid_does():
    grey = jnp.linspace(0, 1, 5, dtype=jnp.float32)
    images = jnp.broadcast_to(grey[None, None, :, None], (1, 4, 5, 1))
    found = inception.preprocess(images)
    assert found.shape == (1, 299, 299, 3)
    # Pixel centres: output column j lies at (j + 1/2) 5/299 - 1/2 of the input.
    columns = np.clip((np.arange(299) + 0.5) * 5 / 299 - 0.5, 0, 4) / 4
    expected = np.broadcast_to((2 * columns - 1)[:, None], (299, 299, 3))
    np.testing.assert_allclose(found[0], expected, atol=1e-5)
    # Shrinking looks at the nearest pixels alone: no smoothing.
    stripes = np.zeros((1, 897, 897, 3), np.float32)
    stripes[:, 1::3] = 1
    np.testing.assert_allclose(inception.preprocess(stripes), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("num_classes", "name"),
    [(1008, "Inception-v3 pool3"), (1000, "torchvision Inception-v3 pool3")],
)
def test_the_classifier_tells_which_weights_a_file_holds(reads, num_classes, name):
    state = reads(state_dict(num_classes))
    kernel = np.random.default_rng(0).normal(size=(32, 3, 3, 3)).astype(np.float32)
    state["Conv2d_1a_3x3.conv.weight"] = kernel
    state["Mixed_7c.branch_pool.bn.running_var"] += 4
    extractor = pretrained.load_inception("weights.pth")
    assert extractor.name == name
    assert extractor.network == InceptionV3(fid=num_classes == 1008)
    first = extractor.variables["params"]["Conv2d_1a_3x3"]["conv"]["kernel"]
    np.testing.assert_array_equal(first, kernel.transpose(2, 3, 1, 0))
    last = extractor.variables["batch_stats"]["Mixed_7c"]["branch_pool"]["bn"]
    np.testing.assert_array_equal(last["var"], np.full(192, 4, np.float32))


def test_an_extractor_gives_the_same_features_in_any_batches(monkeypatch):
    """On a stand-in of the network: the mean colour, 2048 times."""

    class Mean(InceptionV3):
        def __call__(self, x):
            return jnp.tile(jnp.mean(x, axis=(1, 2)), (1, 683))[:, :2048]

    monkeypatch.setattr(inception, "_BATCH", 2)
    extractor = inception.Extractor("mean", Mean(fid=True), {})
    images = np.linspace(0, 1, 5, dtype=np.float32)[:, None, None, None]
    images = np.broadcast_to(images, (5, 8, 8, 1))
    features = extractor(images)
    assert features.shape == (5, 2048) and features.dtype == np.float32
    np.testing.assert_allclose(features[:, 0], np.linspace(-1, 1, 5), atol=1e-5)
    np.testing.assert_array_equal(extractor(images[3:4]), features[3:4])


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((0, 8, 8, 1)), r"n >= 1, .* got \(0, 8, 8, 1\)"),
        (np.zeros((2, 8, 8)), r"got \(2, 8, 8\)"),
        (np.zeros((2, 8, 8, 4)), r"got \(2, 8, 8, 4\)"),
        (np.full((1, 8, 8, 1), 255), r"must lie in \[0, 1\], got \[255, 255\]"),
        (np.full((1, 8, 8, 1), -0.5), r"must lie in \[0, 1\], got \[-0.5, -0.5\]"),
        (np.full((1, 8, 8, 1), np.nan), r"must lie in \[0, 1\], got \[nan, nan\]"),
    ],
)
def test_images_of_another_shape_or_range_are_refused(images, message):
    extractor = inception.Extractor("unused", InceptionV3(fid=True), {})
    with pytest.raises(ValueError, match=message):
        extractor(images)


def test_tensors_that_do_not_fit_are_named(reads):
    good = state_dict(1008)
    name = "Mixed_6b.branch7x7_2.conv.weight"
    reads({key: value for key, value in good.items() if key != name})
    with pytest.raises(ValueError, match=rf"w\.pth lacks 1 of 470 tensors: {name}"):
        pretrained.load_inception("w.pth")
    reads({**good, name: np.zeros((128, 128, 7, 1), np.float32)})
    with pytest.raises(ValueError, match=rf"{name} has shape \(128, 128, 7, 1\)"):
        pretrained.load_inception("w.pth")
    reads({**good, "Mixed_8a.conv.weight": np.zeros(1, np.float32)})
    with pytest.raises(ValueError, match=r"no place for: Mixed_8a\.conv\.weight"):
        pretrained.load_inception("w.pth")
    reads({**good, "fc.weight": np.zeros((10, 2048), np.float32)})
    with pytest.raises(ValueError, match=r"1008 rows .* or 1000 .*, got 10"):
        pretrained.load_inception("w.pth")
    reads({})
    with pytest.raises(ValueError, match=r"must hold fc\.weight .* got None"):
        pretrained.load_inception("w.pth")


def test_files_are_read_by_their_format(tmp_path: pathlib.Path):
    with pytest.raises(FileNotFoundError, match=r"no checkpoint file .*absent\.pth"):
        pretrained.load_inception(tmp_path / "absent.pth")
    few = {"fc.weight": np.zeros((3, 4), np.float16)}
    save_file(few, tmp_path / "few.safetensors")
    with pytest.raises(ValueError, match=r"few\.safetensors must hold .* got 3"):
        pretrained.load_inception(tmp_path / "few.safetensors")
    pickled = tmp_path / "pickled.pth"
    pickled.write_bytes(b"\x80\x02.")
    with pytest.raises(ValueError, match=r"pickled\.pth is not a file of plain"):
        pretrained.load_inception(pickled)
