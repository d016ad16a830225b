"""Sums in float32 keep the bounds that claims are made of."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from fedsvp_jax.core.float32 import add_compensated, pairwise_sum, reciprocal
from fedsvp_jax.core.structs import Array, Examples, Model, Params, Rows, Weights
from fedsvp_jax.models import make_model
from fedsvp_jax.round import local_training, private_query
from fedsvp_jax.round.local_training import Batch, Draws, TrainingRates, TrainingRecipe

CLIP, SIZE = 0.3, 4


def test_a_pairwise_sum_errs_by_its_height() -> None:
    for number in (1, 2, 7, 1000):
        rows = np.random.default_rng(number).random((number, 3), np.float32)
        exact = rows.astype(np.float64).sum(0)
        error = np.abs(np.asarray(jax.jit(pairwise_sum)(rows)) / exact - 1).max()
        assert error <= max(1, np.ceil(np.log2(number))) * 2.0**-24


@pytest.mark.hole
def test_a_compensated_sum_loses_nothing_when_it_is_compiled() -> None:
    """A plain one of 20,000 equal numbers is off by 2e-4, this one by (ku)²."""
    more, number = np.float32(0.1), 20_000

    @jax.jit
    def summed(more: Array) -> tuple[Array, Array]:
        zero = jnp.zeros(())
        return jax.lax.fori_loop(
            0, number, lambda _, sums: add_compensated(*sums, more), (zero, zero)
        )

    total, lost = (np.float64(part) for part in summed(more))
    exact = number * np.float64(more)
    assert abs(total + lost - exact) <= (number * 2.0**-24) ** 2 * exact
    assert abs(total - exact) > 0.1


def test_a_reciprocal_is_a_product_whoever_else_reads_it() -> None:
    x = np.random.default_rng(0).random(1000, np.float32)
    found = jax.jit(lambda x, s: x * reciprocal(s))(x, np.float32(0.3))
    np.testing.assert_array_equal(found, x * (1 / np.float32(0.3)))


def pushed() -> Model:
    """Its loss is −w·x but for a constant, and so the gradient of a record is −x."""

    def apply(params: Params, stats: Params, x: Any, *, train: bool, key: Any) -> Any:
        del train, key
        first = x @ params["w"] - jnp.float32(1e6)
        return jnp.stack([first, jnp.zeros_like(first)], -1), stats

    return Model(lambda key, example: ({"w": jnp.zeros(SIZE)}, {}), apply)


def farthest(mean: Callable[[Array], Any], number: int) -> float:
    """How far the means of neighbours lie apart, in units of 2C/n, at most."""
    rng, most = np.random.default_rng(number), 0.0
    for trial in range(20):
        inputs = np.zeros((number, SIZE), np.float32)
        inputs[:, 0] = CLIP * (1 - 0.3 * rng.random()) if trial else 5.0
        other = inputs.copy()
        inputs[0, 0], other[0, 0] = 5, -5
        one, two = (np.float64(ravel_pytree(mean(x))[0]) for x in (inputs, other))
        most = max(most, float(np.linalg.norm(one - two)))
    return most / (2 * float(np.float32(CLIP)) / number)


def examples_of(inputs: Array) -> Examples:
    nothing = jnp.zeros(inputs.shape[0], jnp.int32)
    return Examples(jnp.asarray(inputs), nothing, nothing)


@pytest.mark.hole
@pytest.mark.parametrize("number", [31, 5421, 10_000])
def test_a_private_query_moves_by_its_bound_in_float32(number: int) -> None:
    """Plain sums exceeded it by 3.2e-4 at 5,421 records."""
    rows = jnp.arange(number, dtype=jnp.int32)

    @jax.jit
    def mean(inputs: Array) -> list[Array]:
        return private_query.mean_clipped_gradient(
            pushed(),
            Weights({"w": jnp.zeros(SIZE)}, {}),
            Rows(examples_of(inputs), rows, rows >= 0),
            l2_norm_clip=CLIP,
            query_parts=(True,),
            lane_axes=(),
        )

    found = farthest(mean, number)
    assert 1 - 2 * private_query.reserve_of_records(number) <= found <= 1


@pytest.mark.hole
@pytest.mark.parametrize("number", [5, 256, 2000])
@pytest.mark.parametrize("name", ["each", "linear"])
def test_a_batch_moves_by_its_bound_in_float32(name: str, number: int) -> None:
    model = pushed() if name == "each" else make_model("scatter_linear", num_classes=2)
    start = Weights(*model.init(jax.random.key(0), jnp.zeros((1, SIZE))))
    recipe = TrainingRecipe(number, 1, "per_example")
    rates = TrainingRates(1.0, CLIP, 0.0, 0.0)
    rows = jnp.arange(number, dtype=jnp.int32)

    @jax.jit
    def mean(inputs: Array) -> Params:
        return local_training.local_update(
            *(model, recipe, rates, start),
            Rows(examples_of(inputs), rows, rows >= 0),
            Draws(jax.random.key(1), jax.random.key(2)),
        ).params

    found = farthest(mean, number)
    assert found <= 1 and (name == "linear" or found >= 0.97)


def test_products_that_add_up_clipped_gradients_are_precise() -> None:
    model = make_model("scatter_linear", num_classes=2)
    start = Weights(*model.init(jax.random.key(0), jnp.zeros((1, SIZE))))

    def gradient(inputs: Array) -> Params:
        wanted, ones = jnp.zeros(8, jnp.int32), jnp.ones(8)
        batch = Batch(inputs, wanted, ones, jax.random.key(0))
        return local_training._linear_gradient(
            model, start, batch, CLIP, 8, separate_clips=False
        )

    lines = jax.jit(gradient).lower(jnp.ones((8, SIZE))).as_text().splitlines()
    products = [line for line in lines if "dot_general" in line]
    precise = [line for line in products if "HIGHEST" in line]
    assert precise and len(precise) == len(products) - 1  # but that of the logits
