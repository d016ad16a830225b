"""Values within one training run, against formulas of a linear model."""

import dataclasses
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.shapley import games
from experiments.shapley.in_run import in_run
from fedsvp_jax import prng
from fedsvp_jax.algorithm import client
from fedsvp_jax.algorithm.address import Address
from fedsvp_jax.algorithm.task import rows_of
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import Program, build
from fedsvp_jax.models.linear import make_linear
from fedsvp_jax.structs import Examples, Split, Weights
from fedsvp_jax.tree import cell_of

CLIENT = 1  # holds nothing of attribute 2
KEY = prng.root_key(5)
RATE, CLIP, PROXIMAL = 1.0, 0.5, 0.2


def linear_program(batch_size: int) -> tuple[Program, Any]:
    """Two clients of 31 examples with three attributes, and the broadcast model."""
    rng = np.random.default_rng(0)
    attributes = np.arange(62) % 2
    attributes[:31:3] = 2
    data = Dataset(
        name="tiny",
        train_inputs=rng.normal(size=(62, 4)).astype(np.float32),
        train_labels=rng.integers(0, 3, 62).astype(np.int32),
        test_inputs=np.zeros((1, 4), np.float32),
        test_labels=np.zeros(1, np.int32),
        num_classes=3,
        train_writers=(np.arange(62) // 31).astype(np.int32),
        columns={"kind": Column(attributes.astype(np.int32), ("a", "b", "c"))},
    )
    config = resolve(
        ExperimentConfig(
            dataset="npz",
            mechanism="fedsva",
            num_attributes=3,
            attributes="column:kind",
            partition="by_writer",
            num_clients=2,
            num_hbc_clients=0,
            cohort_size=2,
            num_rounds=1,
            batch_size=batch_size,
            learning_rate=RATE,
            l2_norm_clip=CLIP,
            proximal_mu=PROXIMAL,
        )
    )
    trainer = Trainer(build([config], data, model=make_linear(3)))
    state = cell_of(trainer.initial_state(), 0)
    drawn = np.random.default_rng(1)
    params = jax.tree.map(
        lambda leaf: jnp.asarray(drawn.normal(size=leaf.shape), jnp.float32),
        state.params,
    )
    return trainer.program, state.replace(params=params)


def held_by(program: Program) -> Split:
    return jax.tree.map(lambda leaf: leaf[CLIENT], cell_of(program.cells, 0).split)


def test_the_model_is_the_local_trainings() -> None:
    program, state = linear_program(batch_size=7)
    params, _ = in_run(program, 1, state, jnp.int32(CLIENT), KEY)
    held = held_by(program)
    trained, _ = client.train(
        program.model,
        program.plan.recipe,
        cell_of(program.cells, 0).rates,
        Weights(state.params, state.stats),
        rows_of(program.data.examples, held),
        Address(KEY, CLIENT),
    )
    chex.assert_trees_all_close(params, trained, atol=1e-6)


def by_formula(program: Program, state: Any) -> np.ndarray:
    """(2, N): first and second order with whole batches, in float64."""
    held, examples = held_by(program), program.data.examples
    of = {
        name: np.asarray(rows)[: int(count)]
        for name, rows, count in (
            ("train", held.train, held.num_train),
            ("validation", held.validation, held.num_validation),
        )
    }
    inputs = np.asarray(examples.inputs, np.float64)
    inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    targets = np.eye(3)[np.asarray(examples.labels)]
    attributes = np.asarray(examples.attributes)[of["train"]]

    def gradients(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(n, 3, 5): of every example's loss."""
        odds = np.exp(inputs[rows] @ weights.T)
        residuals = odds / odds.sum(axis=1, keepdims=True) - targets[rows]
        return residuals[:, :, None] * inputs[rows][:, None, :]

    params = state.params
    start = np.concatenate([params["kernel"], params["bias"][:, None]], axis=1)
    weights = start = start.astype(np.float64)
    values = np.zeros((2, 3))
    for _ in range(program.plan.recipe.local_epochs):
        each = gradients(weights, of["train"])
        mean = each.mean(axis=0)
        rate = RATE * min(1, CLIP / np.linalg.norm(mean))
        move = -rate * mean - RATE * PROXIMAL * (weights - start)

        def slope(at: np.ndarray) -> np.ndarray:
            return gradients(at, of["validation"]).mean(axis=0)

        bend = (slope(weights + 1e-4 * move) - slope(weights - 1e-4 * move)) / 2e-4
        for order, taken in enumerate((0, bend / 2)):
            gains = np.tensordot(each, slope(weights) + taken, axes=2)
            share = rate * gains / len(each)
            values[order] += np.bincount(attributes, share, minlength=3)
        weights = weights + move
    return values


def test_values_are_those_of_the_formula_and_an_attribute_not_held_has_none() -> None:
    program, state = linear_program(batch_size=24)
    split = program.cells.split
    whole = split.replace(num_train=jnp.minimum(split.num_train, 24))
    program = dataclasses.replace(program, cells=program.cells.replace(split=whole))
    expected = by_formula(program, state)
    assert np.abs(expected[0] - expected[1])[:2].min() > 1e-3
    for order in (1, 2):
        _, values = in_run(program, order, state, jnp.int32(CLIENT), KEY)
        np.testing.assert_allclose(values, expected[order - 1], atol=1e-5)
        assert values[2] == 0


@pytest.mark.parametrize("utility", ["loss", "accuracy"])
def test_estimates_without_trainings_sum_to_what_all_attributes_add(
    utility: str,
) -> None:
    rng = np.random.default_rng(2)
    labels = jnp.asarray(rng.integers(0, 3, 6), jnp.int32)
    logits = jnp.asarray(rng.normal(size=(8, 6, 3)), jnp.float32)
    validation = games.RecordedValidation(
        model=make_linear(3),
        examples=Examples(jnp.zeros((6, 4)), labels, jnp.zeros(6, jnp.int32)),
        indices=jnp.arange(6),
        count=jnp.int32(6),
        batch_size=6,
        lane_axes=(),
        kind=utility,
        recorded=logits,
    )
    game = games.estimators.Game(
        num_attributes=3,
        private_attribute=0,
        groups=(),
        batch_size=1,
        start=(jnp.int32(0), {}),
        train=lambda coalition, _: (coalition, {}),
        validation=validation,
        counts=jnp.asarray([4, 0, 2]),
        empty=jnp.float32(0.0),
    )
    whole = float(validation.utility(jnp.int32(7), {}))
    runs = jnp.asarray([[0.4, 0.0, -0.1], [0.2, 0.0, 0.3]])
    for name in ("equal:0", "in_run:1", "in_run:2"):
        one = games.Compared.named(name)
        values = games.without_trainings(one, game, runs).values
        assert values[1] == 0
        assert float(jnp.sum(values)) == pytest.approx(whole, abs=1e-5)
        if name == "equal:0":
            assert float(values[0]) == pytest.approx(whole / 2, abs=1e-6)
        elif utility == "loss":
            difference = float(runs[one.number - 1, 0] - runs[one.number - 1, 2])
            assert float(values[0] - values[2]) == pytest.approx(difference, abs=1e-5)
