"""`--class_weights`: factors of the loss, before anything is clipped."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.core.settings import SettingError, by_class
from fedsvp_jax.core.structs import Array, Examples, Rows, Weights
from fedsvp_jax.models import make_model
from fedsvp_jax.round.local_training import (
    Draws,
    TrainingRates,
    TrainingRecipe,
    _trainee,
    local_update,
)

RNG = np.random.default_rng(5)
INPUTS = RNG.normal(size=(40, 3)).astype(np.float32)
LABELS = (RNG.random(40) < 0.3).astype(np.int32)


def trained(clip: float, weights: tuple[float, ...]) -> dict[str, np.ndarray]:
    """One DP-SGD step of rate 1 on all rows, without noise."""
    recipe = TrainingRecipe(
        batch_size=40,
        local_epochs=1,
        gradient="per_example",
        places=40,
        local_steps=1,
        class_weights=weights,
    )
    model = make_model("logistic", num_classes=2)
    start = Weights(*model.init(jax.random.key(0), INPUTS[:1]))
    examples = Examples(
        jnp.asarray(INPUTS), jnp.asarray(LABELS), jnp.zeros(40, jnp.int32)
    )
    rows = Rows(examples, jnp.arange(40, dtype=jnp.int32), jnp.ones(40, bool))
    draws = Draws(jax.random.key(1), jax.random.key(2))
    rates = TrainingRates(1.0, clip, step_noise_std=0.0, proximal_mu=0.0)
    return dict(local_update(model, recipe, rates, start, rows, draws).params)


@pytest.mark.hole
def test_weights_multiply_each_examples_gradient_before_the_clip() -> None:
    weights = np.array([0.5, 2.0])
    residual = 0.5 - np.eye(2)[LABELS]  # of the softmax at 0
    residual *= weights[LABELS][:, None]
    norm = np.linalg.norm(residual, axis=1) * np.sqrt(1 + (INPUTS**2).sum(1))
    clip = float(np.median(norm))
    residual *= np.minimum(1, clip / norm)[:, None]
    params = trained(clip, (0.5, 2.0))
    assert params["kernel"] == pytest.approx(-residual.T @ INPUTS / 40, abs=1e-5)
    assert params["bias"] == pytest.approx(-residual.sum(0) / 40, abs=1e-5)
    far = trained(0.01, (1.0, 1e6))
    length = np.sqrt(sum(np.square(leaf).sum() for leaf in far.values()))
    assert length <= 0.01


@pytest.mark.hole
def test_a_gpus_loss_is_cross_entropy_and_scatters_nothing() -> None:
    logits = jnp.asarray(RNG.normal(size=(40, 3)) * 30, jnp.float32)
    logits = logits.at[0, 2].set(-jnp.inf)  # of a class that is ruled out
    model = make_model("logistic", num_classes=3)
    recipe = TrainingRecipe(40, 1, "mean", class_weights=(0.5, 2.0, 1.0))

    def loss(fewer_kernels: bool) -> Callable[[Array], Array]:
        trainee = _trainee(model, recipe._replace(fewer_kernels=fewer_kernels))
        return lambda logits: jnp.sum(jnp.sin(trainee.loss(logits, LABELS)))

    gpus, theirs = (jax.jit(jax.value_and_grad(loss(few))) for few in (True, False))
    for ours, expected in zip(gpus(logits), theirs(logits), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
    texts = [f.lower(logits).as_text() for f in (gpus, theirs)]
    assert ["scatter" in text for text in texts] == [False, True]

    def squares(outputs: Array, targets: Array) -> Array:
        return jnp.sum(jnp.square(outputs - targets), axis=1)

    recipe = recipe._replace(class_weights=(), fewer_kernels=True)
    assert _trainee(model._replace(loss=squares), recipe).loss is squares


def test_numbers_by_class_are_positive_and_one_for_each() -> None:
    assert by_class("class_weights", "1,2.5", 2) == (1, 2.5)
    assert by_class("class_weights", None, 2) == ()
    for text in ("1", "1,2,3", "1,x", "0,1", "1,inf", ""):
        with pytest.raises(SettingError, match="class_weights must be 2 positive"):
            by_class("class_weights", text, 2)
