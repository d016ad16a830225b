"""The model of a run's folder: the numbers that were trained, and what they predict."""

import dataclasses
import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from small_runs import digits, small

from fedsvp_jax import models, run
from fedsvp_jax.core.tree import params_sha256
from fedsvp_jax.run.trained_model import read_tensors


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
    tensors = load_file(tmp_path / "model.safetensors")
    assert sorted(tensors) == [
        f"params/Dense_{layer}/{part}"
        for layer in (0, 1)
        for part in ("bias", "kernel")
    ]
    for layer, leaves in trained.params.items():
        for part, leaf in leaves.items():
            np.testing.assert_array_equal(tensors[f"params/{layer}/{part}"], leaf)


def test_what_is_no_model_of_the_run_is_refused(
    whole_run: Path, trained: run.TrainedModel, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"must have the shape \(n, 8, 8, 1\)"):
        trained.probabilities(np.zeros((2, 28, 28, 1), np.uint8))
    with pytest.raises(ValueError, match="at least one example"):
        trained.predict(digits().test_inputs[:0])
    with pytest.raises(ValueError, match=r"saved as \.safetensors, got .*pt$"):
        trained.save(tmp_path / "model.pt")
    with pytest.raises(ValueError, match="of another model"):
        other = models.make_model("small_cnn", num_classes=10)
        run.load_model(whole_run, model=other)
    with pytest.raises(ValueError, match="holds no run: there is no config"):
        run.load_model(tmp_path)
    with pytest.raises(ValueError, match="there is no such file or folder"):
        run.load_model(tmp_path / "model.safetensors")
    shutil.copy(whole_run / "config.json", tmp_path)
    with pytest.raises(ValueError, match="no checkpoint yet"):
        run.load_model(tmp_path)
    (tmp_path / "config.json").write_text('{"mechanisms": [], "example_shape": []}')
    with pytest.raises(ValueError, match=r"sweep, which keeps no model .* train"):
        run.load_model(tmp_path)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_inputs_that_are_no_numbers_are_refused(
    trained: run.TrainedModel, wrong: float
) -> None:
    """NaN was predicted as class 0."""
    inputs = digits().test_inputs[:3].astype(np.float32)
    inputs[1, 2, 3, 0] = wrong
    message = r"inputs hold NaN or infinity \(1 of 192 .* at index \[1, 2, 3, 0\]\)"
    for answer in (trained.predict, trained.probabilities, trained.outputs):
        with pytest.raises(ValueError, match=message):
            answer(inputs)


# As the format says it: the header's length, the header, the numbers.
HEADER = (
    b'{"__metadata__":{"told":"\\u00e9"},'
    b'"count":{"dtype":"I64","shape":[],"data_offsets":[0,8]},'
    b'"a/b":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},'
    b'"half":{"dtype":"BF16","shape":[1],"data_offsets":[16,18]}}   '
)
FILE = len(HEADER).to_bytes(8, "little") + HEADER
FILE += b"\7" + bytes(7) + bytes.fromhex("0000803f00000040803f")


def test_a_file_of_tensors_is_read_as_its_format_says(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(FILE)
    found, metadata = read_tensors(path)
    assert metadata == {"told": "é"}
    assert found["count"] == 7 and found["count"].shape == ()
    np.testing.assert_array_equal(found["a/b"], np.float32([[1, 2]]))
    assert found["half"].dtype == jnp.bfloat16 and found["half"] == 1


def test_damage_of_a_file_of_tensors_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for raw in (b"", FILE[:5], FILE[:40], FILE[:-1], FILE + b"1", b"\xff" * 99):
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=r"a\.safetensors is not a safetensors"):
            read_tensors(path)


def test_an_array_is_saved_by_its_values_however_it_lies_in_memory(
    trained: run.TrainedModel, tmp_path: Path
) -> None:
    turned = jax.tree.map(lambda leaf: np.asarray(leaf, order="F"), trained.params)
    path = tmp_path / "model.safetensors"
    dataclasses.replace(trained, params=turned).save(path)
    assert params_sha256(run.load_model(path).params) == params_sha256(trained.params)


@pytest.mark.hole
def test_a_model_of_ones_own_is_loaded_as_no_other(tmp_path: Path) -> None:
    """Of the shapes of mlp it was loaded as that, and was right of 6 rows in 100."""
    plain = models.make_model("mlp", num_classes=10)
    own = plain._replace(
        apply=lambda *words, **options: jax.tree.map(
            lambda leaf: -leaf, plain.apply(*words, **options)
        )
    )
    config = small(num_rounds=1)
    run.train(config, tmp_path / "run", dataset=digits(), model=own)
    trained = run.load_model(tmp_path / "run", model=own)
    trained.save(tmp_path / "own.safetensors")
    for place in ("run", "own.safetensors"):
        with pytest.raises(ValueError, match="model of your own was trained"):
            run.load_model(tmp_path / place)
        loaded = run.load_model(tmp_path / place, model=own)
        rows = digits().test_inputs[:20]
        np.testing.assert_array_equal(loaded.predict(rows), trained.predict(rows))
