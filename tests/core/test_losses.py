"""A loss of one's own: what it changes in a round, and what is refused with it."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from quick_training import quick_training  # noqa: F401, a fixture
from small_runs import read_rows, small

from fedsvp_jax import federation, make_round, report, run
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core import losses
from fedsvp_jax.core.structs import Examples, Model, Rows, Weights
from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.devices import lanes
from fedsvp_jax.models import evaluation, from_linen
from fedsvp_jax.models.networks import Linear, gradient_scale
from fedsvp_jax.round import local_training
from fedsvp_jax.run.sweep import SweepPlan, sweep

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
Y = (X @ np.asarray([1.0, -2.0, 0.5]) + 0.3).astype(np.float32)
LINEAR = from_linen(Linear(1))._replace(gradient_scale=gradient_scale)
WEIGHTS = {"kernel": jnp.asarray([[0.5, 0.0, -1.0]]), "bias": jnp.asarray([0.2])}


def squared_error(output: Array, target: Array) -> Array:
    return (output[0] - target) ** 2


def line() -> Model:
    return LINEAR._replace(loss=losses.of_examples(squared_error))


def examples() -> Examples:
    nothing = jnp.zeros(len(X), jnp.int32)
    return Examples(jnp.asarray(X), nothing, nothing, jnp.asarray(Y))


def residuals() -> np.ndarray:
    """(60,) outputs less targets of `WEIGHTS`."""
    return X @ np.asarray([0.5, 0.0, -1.0]) + 0.2 - Y


def table() -> Dataset:
    nothing = np.zeros(len(X), np.int32)
    side = {"side": Column((X[:, 0] > 0).astype(np.int32), ("left", "right"))}
    return Dataset(
        *("line", X, nothing, X, nothing),
        num_classes=1,
        columns=side,
        test_columns=side,
        train_targets=Y.astype(np.float64),
        test_targets=Y,
    )


def settings(**changes: Any) -> ExperimentConfig:
    given: dict[str, Any] = {
        "dataset": "npz",
        "attributes": "column:side",
        "private_attribute": 1,
        "partition": "iid",
        "num_clients": 4,
        "num_hbc_clients": 0,
        "cohort_size": 2,
        "num_rounds": 3,
        "utility": "loss",
        "empty_utility": "initial",
    }
    return small(**(given | changes))


@pytest.mark.parametrize("gradient", ["mean", "per_example"])
def test_a_step_goes_down_the_loss_s_gradient(gradient: Any) -> None:
    """Of the mean, and of clipped examples: the linear shortcut takes any loss too."""
    recipe = local_training.TrainingRecipe(60, 1, gradient)
    trained, _ = local_training.local_update(
        line(),
        recipe,
        local_training.TrainingRates(jnp.float32(0.1), jnp.float32(0.5), 0.0, 0.0),
        Weights(WEIGHTS, {}),
        Rows(examples(), jnp.arange(60, dtype=jnp.int32), jnp.ones(60, bool)),
        local_training.Draws(jax.random.key(0), jax.random.key(1)),
    )
    by_weight = np.concatenate([X, np.ones((60, 1))], axis=1)
    gradients = 2 * residuals()[:, None] * by_weight
    if gradient == "per_example":
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        gradients *= np.minimum(1, 0.5 / norms)
    mean = gradients.mean(0)
    np.testing.assert_allclose(
        trained["kernel"], WEIGHTS["kernel"] - 0.1 * mean[None, :3], atol=1e-5
    )
    np.testing.assert_allclose(trained["bias"], [0.2 - 0.1 * mean[3]], rtol=1e-5)


def test_a_score_is_the_mean_loss_and_a_utility_minus_it() -> None:
    mean = np.mean(residuals() ** 2)
    devices = lanes.Devices(1, jnp.int32(0))
    sizes = {"batch_size": 16, "devices": devices, "known_trips": False}
    weights = Weights(WEIGHTS, {})
    score = evaluation.evaluate(line(), weights, examples(), **sizes)
    np.testing.assert_allclose(score.loss, mean, rtol=1e-5)
    assert np.isnan(score.accuracy) and np.isnan(score.group_accuracy).all()
    held = evaluation.Validation(
        line(), examples(), jnp.arange(60), jnp.int32(60), 16, (), kind="loss"
    )
    np.testing.assert_allclose(held.utility(weights), -mean, rtol=1e-5)
    blended = held.utility_of(held.logits(weights))
    np.testing.assert_allclose(blended, -mean, rtol=1e-5)


@pytest.mark.usefixtures("quick_training")
def test_a_run_with_targets_reports_its_loss_and_no_accuracy(tmp_path: Path) -> None:
    data, model = table(), LINEAR
    config = settings(validation_examples=20)
    summary = run.train(config, tmp_path, dataset=data, model=model, loss=squared_error)
    rows = read_rows(tmp_path / "metrics.jsonl")
    told = [row["validation_loss"] for row in rows]
    assert [row["test_accuracy"] for row in rows] == [None] * 3
    assert summary["best_by"] == "validation_loss"
    assert summary["best_round"] == 1 + int(np.argmin(told))
    assert summary["best_loss"] == rows[summary["best_round"] - 1]["test_loss"]
    trained = run.load_model(tmp_path, model=model)
    assert trained.settings["loss"] == "squared_error"
    with pytest.raises(ValueError, match="predicts no classes; use outputs"):
        trained.predict(X)
    assert trained.outputs(X).shape == (60, 1)
    page = report.write_run_report(tmp_path).read_text()
    assert "test loss (squared_error)" in page and "test accuracy" not in page


@pytest.mark.usefixtures("quick_training")
def test_a_loss_that_is_never_finite_is_told_once_and_stands_in_no_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It trained without a word: NaN gradients are zeroed, and uploads stay finite."""

    def no_number(output: Array, target: Array) -> Array:
        return jnp.nan * squared_error(output, target)

    summary = run.train(
        settings(eval_every=2),
        tmp_path,
        dataset=table(),
        model=LINEAR,
        loss=no_number,
    )
    assert summary["diverged_in_round"] == 2
    (warning,) = caplog.messages
    assert "test loss is not finite after round 2: such gradients" in warning
    for file in tmp_path.glob("*.json*"):
        assert "not finite" not in file.read_text()
    caplog.clear()
    summary = run.train(
        settings(eval_every=2),
        tmp_path / "b",
        dataset=table(),
        model=LINEAR,
        loss=squared_error,
    )
    assert not caplog.messages and summary["diverged_in_round"] is None


@pytest.mark.usefixtures("quick_training")
def test_a_sweep_and_a_loop_of_ones_own_take_a_loss(tmp_path: Path) -> None:
    """Nothing passed `loss=` to either."""
    data, model, config = table(), LINEAR, settings()
    plan = SweepPlan(mechanisms=("none",), epsilons=(0.5,), seeds=(config.seed,))
    (cell,) = sweep(
        config, plan, tmp_path / "s", dataset=data, model=model, loss=squared_error
    )
    bare = dataclasses.replace(config, mechanism="none")
    alone = run.train(
        bare, tmp_path / "a", dataset=data, model=model, loss=squared_error
    )
    assert cell["best_loss"] == pytest.approx(alone["best_loss"], rel=1e-5)
    state, step = make_round(bare, data, model=model, loss=squared_error)
    _, metrics = step(state)
    (first, *_) = read_rows(tmp_path / "a" / "metrics.jsonl")
    assert float(metrics.test_loss) == pytest.approx(first["test_loss"], rel=1e-5)


REFUSED: dict[str, tuple[dict[str, Any], Any]] = {
    "needs a loss that compares": ({}, None),
    "give run.train loss= and model=": ({"model": None}, squared_error),
    "utility must be loss for": ({"utility": "accuracy"}, squared_error),
    "empty_utility must be initial": ({"empty_utility": "zero"}, squared_error),
    "corrupted_share must be 0 for": ({"corrupted_share": 0.5}, squared_error),
    "influence_filter must be none with a loss": (
        {"influence_filter": "join", "warmup_examples": 10},
        squared_error,
    ),
    r"one float32 number, shape \(\), .* got float32\[1\]": ({}, lambda y, t: y - t),
    "loss does not take an output of the shape": ({}, lambda y, t: y @ t),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_has_no_meaning_is_refused(message: str) -> None:
    changes, loss = REFUSED[message]
    given = {"model": LINEAR} | changes
    model = given.pop("model")
    with pytest.raises(ValueError, match=message):
        federation.build([settings(**given)], table(), model=model, loss=loss)


def test_targets_are_checked_and_part_of_the_fingerprint() -> None:
    data = table()
    assert data.train_targets is not None
    assert data.train_targets.dtype == np.float32
    other = dataclasses.replace(data, train_targets=Y + 1)
    assert other.fingerprint != data.fingerprint
    for changes, message in (
        ({"test_targets": None}, "of one type and shape, or both None"),
        ({"train_targets": Y[:5]}, "must have 60 rows"),
        ({"train_targets": np.full(60, np.nan)}, "train targets hold NaN"),
        ({"test_targets": np.full(60, "a")}, "must be numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(data, **changes)
