"""The model of a run's folder: the numbers that were trained, and what they predict."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from flax import serialization
from safetensors.numpy import load_file
from small_runs import digits

from fedsvp_jax import models, run
from fedsvp_jax.tree import params_sha256


@pytest.fixture(scope="module")
def trained(whole_run: Path) -> run.TrainedModel:
    return run.load_model(whole_run)


def test_the_parameters_are_those_that_were_trained(
    whole_run: Path, trained: run.TrainedModel
) -> None:
    summary = json.loads((whole_run / "summary.json").read_text())
    assert params_sha256(trained.params) == summary["params_sha256"]
    assert trained.rounds == summary["rounds"]


def test_predictions_on_the_test_set_have_the_run_s_accuracy(
    whole_run: Path, trained: run.TrainedModel
) -> None:
    last = json.loads((whole_run / "metrics.jsonl").read_text().splitlines()[-1])
    right = trained.predict(digits().test_inputs) == digits().test_labels
    assert np.mean(right) == pytest.approx(last["test_accuracy"], abs=1e-6)


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
