"""The steps of a private query by themselves, on a linear classifier."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.core.structs import Array, Examples, Model, Params, Rows, Weights
from fedsvp_jax.round import private_query

MARGIN = 1.5
# Of a linear classifier of 3 features and 4 classes.
TREE = {"bias": np.float32([1, 2, 3, 4]), "kernel": np.arange(12.0).reshape(4, 3)}


def linear_model() -> Model:
    def apply(params: Params, stats: Params, x: Any, *, train: bool, key: Any) -> Any:
        assert train is False and key is None
        return x @ params["kernel"].T + (params["bias"] + stats["shift"])[None], stats

    return Model(lambda key, example: (TREE, {}), apply)


def drawn_records(count: int) -> tuple[Examples, Params, Params]:
    rng = np.random.default_rng(4)
    examples = Examples(
        inputs=rng.normal(size=(count, 3)).astype(np.float32),
        labels=rng.integers(0, 4, count).astype(np.int32),
        attributes=np.zeros(count, np.int32),
    )
    params = jax.tree.map(
        lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), TREE
    )
    return examples, params, {"shift": np.float32([0.3, 0.0, -0.2, 0.1])}


@jax.jit
def answers(rows: Array, member: Array, clip: float) -> list[Array]:
    """The answers of clients side by side: (clients, ...)."""
    examples, params, stats = drawn_records(90)
    return jax.vmap(
        lambda rows, member: private_query.mean_clipped_gradient(
            linear_model(),
            Weights(params, stats),
            Rows(jax.tree.map(jnp.asarray, examples), rows, member),
            l2_norm_clip=clip,
            query_parts=(True, True),
            lane_axes=("clients",),
        ),
        axis_name="clients",
    )(rows, member)


def by_hand(
    examples: Examples, params: Params, stats: Params, rows: list[int], clip: float
) -> list[np.ndarray]:
    """The mean clipped gradient of softmax regression: p - y, and that times x."""
    total = [np.zeros(4), np.zeros((4, 3))]
    for row in rows:
        x = np.float64(examples.inputs[row])
        logits = np.float64(params["kernel"]) @ x + params["bias"] + stats["shift"]
        residual = np.exp(logits) / np.exp(logits).sum()
        residual[int(examples.labels[row])] -= 1
        length = np.linalg.norm(residual) * np.sqrt(1 + x @ x)
        residual *= min(1, clip / length) / len(rows)
        total = [total[0] + residual, total[1] + np.outer(residual, x)]
    return total


def test_public_and_private_rows_divide_what_the_client_holds():
    attributes = jnp.asarray([1, 0, 2, 1, 1, 1], jnp.int32)
    public, private = private_query.divided(
        attributes, jnp.int32(5), private_attribute=1
    )
    np.testing.assert_array_equal(public, [0, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(private, [1, 0, 0, 1, 1, 0])


def test_what_is_chosen_comes_back_to_its_place_and_the_rest_stays():
    asked = ((0, 2), True)
    bias, kernel = private_query.chosen(TREE, asked)
    np.testing.assert_array_equal(bias, [1, 3])
    np.testing.assert_array_equal(kernel, TREE["kernel"])
    new = private_query.replaced(
        jax.tree.map(jnp.asarray, TREE), [10 * bias, 10 * kernel], asked
    )
    np.testing.assert_array_equal(new["bias"], [10, 2, 30, 4])
    np.testing.assert_array_equal(new["kernel"], 10 * TREE["kernel"])
    (alone,) = private_query.chosen(TREE, (False, True))
    np.testing.assert_array_equal(alone, TREE["kernel"])
    kept = private_query.replaced(TREE, [2 * alone], (False, True))
    assert kept["bias"] is TREE["bias"]


@pytest.mark.parametrize("rows", [(0, 2), (3,)])
def test_public_training_has_no_gradient_in_the_rows_that_are_asked(rows: tuple):
    examples, *told = drawn_records(5)
    params, stats = jax.tree.map(jnp.asarray, told)
    model = linear_model()
    still = private_query.public_model(model, (rows, rows), (1, 3), MARGIN)
    whole = private_query.public_model(model, (True, False), (1, 3), MARGIN)
    assert still.init is model.init
    logits, lowered = (
        one.apply(params, stats, examples.inputs, train=False, key=None)[0]
        for one in (model, whole)
    )
    expected = np.float32([[0, MARGIN, 0, MARGIN]] * 5)
    np.testing.assert_allclose(logits - lowered, expected, rtol=1e-5, atol=1e-6)

    def loss(model: Model, params: Params) -> Any:
        logits, _ = model.apply(params, stats, examples.inputs, train=False, key=None)
        return jnp.sum(logits**2)

    plain, kept = (
        jax.jit(jax.grad(lambda w, m=m: loss(m, w)))(params) for m in (whole, still)
    )
    for leaf, all_of_it in zip(*map(jax.tree.leaves, (kept, plain)), strict=True):
        asked = np.isin(np.arange(4), rows)
        np.testing.assert_array_equal(leaf[asked], 0)
        np.testing.assert_allclose(leaf[~asked], all_of_it[~asked], rtol=1e-6)
        assert np.all(all_of_it[asked] != 0)


@pytest.mark.parametrize("counts", [(0, 70), (1, 32), (33, 3)])
def test_the_query_is_the_mean_of_clipped_gradients_of_a_clients_own_records(
    counts: tuple[int, int],
):
    """Also of clients side by side, whatever the other one holds."""
    rng, clip = np.random.default_rng(counts), 1.0 / (1 + counts[0] % 2)
    rows = np.stack([rng.permutation(90)[:80] for _ in counts]).astype(np.int32)
    member = np.stack([np.isin(np.arange(80), rng.permutation(80)[:n]) for n in counts])
    found = answers(rows, member, clip)
    for lane, (of_client, asked) in enumerate(zip(rows, member, strict=True)):
        wanted = by_hand(*drawn_records(90), of_client[asked].tolist(), clip)
        mine = [np.float64(leaf[lane]) for leaf in found]
        chex.assert_trees_all_close(mine, wanted, rtol=1e-4, atol=1e-6)
