"""The model of a run's folder: the numbers that were trained, and what they predict."""

import json
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from flax import serialization
from safetensors.numpy import load_file, save_file
from small_runs import digits

from fedsvp_jax import models, run
from fedsvp_jax.run.safetensors import read_safetensors, write_safetensors
from fedsvp_jax.tree import params_sha256


@pytest.fixture(scope="module")
def trained(whole_run: Path) -> run.TrainedModel:
    return run.load_model(whole_run)


def test_the_parameters_are_those_that_were_trained_and_predict_as_the_run_says(
    whole_run: Path, trained: run.TrainedModel
) -> None:
    summary = json.loads((whole_run / "summary.json").read_text())
    assert params_sha256(trained.params) == summary["params_sha256"]
    assert trained.rounds == summary["rounds"]
    right = trained.predict(digits().test_inputs) == digits().test_labels
    assert np.mean(right) == pytest.approx(summary["final_accuracy"], abs=1e-6)


def test_probabilities_sum_to_one_and_do_not_depend_on_the_batch(
    trained: run.TrainedModel,
) -> None:
    inputs = digits().train_inputs[:501]  # more than one batch
    together = trained.probabilities(inputs)
    np.testing.assert_allclose(together.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(trained.probabilities(inputs[500:]), together[500:])


def test_a_saved_model_holds_the_arrays_by_name(
    trained: run.TrainedModel, tmp_path: Path
) -> None:
    trained.save(tmp_path / "model.safetensors")
    trained.save(tmp_path / "model.msgpack")
    tensors = load_file(tmp_path / "model.safetensors")
    tree = serialization.msgpack_restore((tmp_path / "model.msgpack").read_bytes())
    assert sorted(tensors) == [
        f"params/Dense_{layer}/{part}"
        for layer in (0, 1)
        for part in ("bias", "kernel")
    ]
    for layer, leaves in trained.params.items():
        for part, leaf in leaves.items():
            np.testing.assert_array_equal(tensors[f"params/{layer}/{part}"], leaf)
            np.testing.assert_array_equal(tree["params"][layer][part], leaf)


def test_what_is_no_model_of_the_run_is_refused(
    whole_run: Path, trained: run.TrainedModel, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"must have the shape \(n, 8, 8, 1\)"):
        trained.probabilities(np.zeros((2, 28, 28, 1), np.uint8))
    with pytest.raises(ValueError, match="at least one example"):
        trained.predict(digits().test_inputs[:0])
    with pytest.raises(ValueError, match=r"safetensors or \.msgpack, got .*pt$"):
        trained.save(tmp_path / "model.pt")
    with pytest.raises(ValueError, match="of another model"):
        other = models.make_model("small_cnn", num_classes=10)
        run.load_model(whole_run, model=other)
    with pytest.raises(ValueError, match="holds no run"):
        run.load_model(tmp_path)
    shutil.copy(whole_run / "config.json", tmp_path)
    with pytest.raises(ValueError, match="no checkpoint yet"):
        run.load_model(tmp_path)


TENSORS = {
    "a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.asarray(jnp.ones((3,), jnp.bfloat16)),
    "count": np.array(7, np.int64),
    "none": np.zeros((0, 4), np.uint8),
}


def test_a_file_of_tensors_is_read_here_and_by_the_safetensors_library(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(write_safetensors(TENSORS, {"told": "é"}))
    found, metadata = read_safetensors(path)
    assert metadata == {"told": "é"}
    for name, tensor in TENSORS.items():
        assert found[name].shape == tensor.shape and found[name].dtype == tensor.dtype
        np.testing.assert_array_equal(found[name], tensor)
    np.testing.assert_array_equal(load_file(path)["a/b"], TENSORS["a/b"])
    save_file({"x": TENSORS["a/b"]}, path)
    np.testing.assert_array_equal(read_safetensors(path)[0]["x"], TENSORS["a/b"])


def test_damage_of_a_file_of_tensors_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    whole = write_safetensors(TENSORS)
    for raw in (b"", whole[:5], whole[:40], whole[:-1], whole + b"1", b"\xff" * 99):
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=r"a\.safetensors is not a safetensors"):
            read_safetensors(path)
