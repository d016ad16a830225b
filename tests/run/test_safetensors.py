"""A file of tensors is that of the safetensors library, both ways."""

import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.run.safetensors import read_safetensors, write_safetensors

TENSORS = {
    "a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.asarray(jnp.ones((3,), jnp.bfloat16)),
    "count": np.array(7, np.int64),
    "none": np.zeros((0, 4), np.uint8),
}


def test_what_is_written_is_read_by_both(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(write_safetensors(TENSORS, {"told": "é"}))
    found, metadata = read_safetensors(path)
    assert metadata == {"told": "é"}
    for name, tensor in TENSORS.items():
        assert found[name].shape == tensor.shape and found[name].dtype == tensor.dtype
        np.testing.assert_array_equal(found[name], tensor)
    library = pytest.importorskip("safetensors.numpy")
    theirs = library.load_file(path)
    np.testing.assert_array_equal(theirs["a/b"], TENSORS["a/b"])
    library.save_file({"x": TENSORS["a/b"]}, path)
    np.testing.assert_array_equal(read_safetensors(path)[0]["x"], TENSORS["a/b"])


def test_damage_is_one_sentence(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.safetensors"
    whole = write_safetensors(TENSORS)
    for raw in (b"", whole[:5], whole[:40], whole[:-1], whole + b"1", b"\xff" * 99):
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=r"a\.safetensors is not a safetensors"):
            read_safetensors(path)
