"""Attribute records: what a neighbour can move, and what it cannot."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_runs import digits, small

from fedsvp_jax import prng
from fedsvp_jax.algorithm import client, private_query
from fedsvp_jax.algorithm.state import initial_state
from fedsvp_jax.data import preprocessing
from fedsvp_jax.federation import Program, build
from fedsvp_jax.structs import Examples, NoiseInfo, Params
from fedsvp_jax.tree import cell_of

CLIENT = 2
CLIP, RATE = 0.25, 2.0


@cache
def program(**changes: Any) -> Program:
    settings = {
        "mechanism": "none",
        "sensitivity": "attribute_records",
        "private_clip": CLIP,
        "private_learning_rate": RATE,
        "class_share": 0.1,
        "num_hbc_clients": 0,
    }
    return build([small(**(settings | changes))], digits())


def private_places(made: Program) -> np.ndarray:
    """Rows of `examples` that are the client's private training records."""
    held = cell_of(cell_of(made.cells, 0).split, CLIENT)
    rows = np.asarray(held.train)[: int(held.num_train)]
    return rows[np.asarray(made.data.examples.attributes)[rows] == 0]


@cache
def playing(**changes: Any) -> Any:
    """The program, its state and the compiled round of one client."""
    made = program(**changes)
    cell = cell_of(made.cells, 0)
    state = initial_state(made.model, made.plan, made.example, cell)
    # away from the initial symmetry
    state = state.replace(params=jax.tree.map(lambda x: x + 0.01, state.params))

    def run(examples: Examples) -> tuple[Params, NoiseInfo]:
        (upload, _), (_, metrics) = client.client_round(
            made.model,
            made.plan,
            cell,
            state,
            examples,
            jnp.int32(CLIENT),
            jnp.int32(CLIENT),
            jnp.float32(1.0),
            key=prng.round_key(prng.root_key(7), 3),
            round_num=jnp.int32(3),
            lane_axes=(),
        )
        return upload, metrics.noise

    return made, state, jax.jit(run)


def changed(examples: Examples, row: int, inputs: Any, label: int) -> Examples:
    """The examples with another record in a row, of the same attribute."""
    return Examples(
        inputs=examples.inputs.at[row].set(inputs),
        labels=examples.labels.at[row].set(label),
        attributes=examples.attributes,
    )


def distance(one: Params, other: Params) -> float:
    gaps = jax.tree.map(lambda a, b: np.sum((np.float64(a) - b) ** 2), one, other)
    return float(np.sqrt(sum(jax.tree.leaves(gaps))))


@pytest.mark.parametrize("layers", ["all", "last"])
def test_no_neighbour_moves_the_upload_by_more_than_the_bound(layers: str):
    made, _, run = playing(private_layers=layers)
    examples, places = made.data.examples, private_places(made)
    before, _ = run(examples)
    bound = 2 * CLIP * RATE / len(places)
    rng, gaps = np.random.default_rng(0), []
    for row in places[:3]:
        for label in range(10):
            shape = examples.inputs.shape[1:]
            pixels = rng.choice([0, 255], shape).astype(examples.inputs.dtype)
            after, _ = run(changed(examples, int(row), pixels, label))
            gaps.append(distance(before, after))
            for leaf, old, asked in zip(
                *map(jax.tree.leaves, (after, before)),
                made.plan.asked,
                strict=True,
            ):  # what the query does not move has the same bits
                assert asked or np.array_equal(leaf, old)
    assert 0.5 * bound < max(gaps) <= bound * (1 + 1e-4)


def test_leaving_a_record_out_of_the_sum_moves_it_by_half_as_much():
    made, state, _ = playing()
    (row, *_), count = private_places(made), len(private_places(made))
    gradient = private_query.mean_clipped_gradient(
        made.model,
        state.params,
        state.stats,
        made.data.examples,
        jnp.asarray([row], jnp.int32),
        jnp.asarray([True]),
        l2_norm_clip=CLIP,
        asked=made.plan.asked,
        lane_axes=(),
    )
    norm = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in gradient))
    assert RATE * norm / count <= CLIP * RATE / count * (1 + 1e-5)


def test_public_training_has_the_same_bits_for_neighbours_and_reads_public_records():
    made, _, run = playing(private_learning_rate=0.0)
    examples, places = made.data.examples, private_places(made)
    before, _ = run(examples)
    pixels = jnp.full(examples.inputs.shape[1:], 255, examples.inputs.dtype)
    after, _ = run(changed(examples, int(places[0]), pixels, 3))
    for leaf, old in zip(*map(jax.tree.leaves, (after, before)), strict=True):
        np.testing.assert_array_equal(leaf, old)
    held = cell_of(cell_of(made.cells, 0).split, CLIENT)
    public = next(int(row) for row in held.train if int(row) not in places)
    moved, _ = run(changed(examples, public, pixels, 3))
    assert distance(before, moved) > 0  # other records are not protected


def test_without_clip_and_noise_it_is_a_plain_mean_gradient():
    made, state, run = playing(private_clip=np.inf)
    silent, _ = playing(private_learning_rate=0.0)[-1](made.data.examples)
    upload, _ = run(made.data.examples)
    places = private_places(made)
    trained = jax.tree.map(jnp.add, state.params, silent)

    def loss(params: Params) -> Any:
        inputs = preprocessing.normalize(made.data.examples.inputs[places])
        logits, _ = made.model.apply(params, {}, inputs, train=False, key=None)
        labels = made.data.examples.labels[places]
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    wanted = jax.tree.map(lambda a, g: a - RATE * g, silent, jax.grad(loss)(trained))
    for leaf, one in zip(*map(jax.tree.leaves, (upload, wanted)), strict=True):
        np.testing.assert_allclose(leaf, one, rtol=1e-4, atol=1e-6)


def test_the_noise_is_on_the_asked_layers_alone_and_as_large_as_promised():
    settings = {"mechanism": "gaussian", "noise_std": 0.5, "private_layers": "last"}
    made, _, run = playing(**settings)
    noised, info = run(made.data.examples)
    plain, _ = playing(private_layers="last")[-1](made.data.examples)
    gaps = jax.tree.map(lambda a, b: np.asarray(a - b), noised, plain)
    parts = list(zip(jax.tree.leaves(gaps), made.plan.asked, strict=True))
    assert all(np.any(part) == asked for part, asked in parts)
    drawn = np.concatenate([part.ravel() for part, asked in parts if asked])
    assert 0.45 < drawn.std() < 0.55
    bound = 2 * CLIP * RATE / len(private_places(made))
    np.testing.assert_allclose(info.noise_multiplier, 0.5 / bound, rtol=1e-5)


def test_a_client_without_private_records_sends_its_public_update_for_free():
    made, _, run = playing(mechanism="nbafl", epsilon=0.5)
    examples = made.data.examples
    nobody = Examples(examples.inputs, examples.labels, jnp.ones_like(examples.labels))
    upload, info = run(nobody)
    assert np.isinf(info.noise_multiplier) and info.noise_std == 0
    assert info.epsilon == 0 and info.delta == 0
    plain, _ = playing(private_learning_rate=0.0)[-1](nobody)
    assert distance(upload, plain) == 0


def test_the_last_layer_is_known_for_models_built_by_name_alone():
    made = program(private_layers="last")
    assert 0 < sum(made.plan.asked) < len(made.plan.asked)
    config = small(sensitivity="attribute_records", private_layers="last")
    with pytest.raises(ValueError, match="private_layers must be all"):
        build([config], digits(), model=made.model)


def test_the_private_classes_logits_are_moved_by_the_private_query_alone():
    still, _, run = playing(private_layers="classes", private_learning_rate=0.0)
    moving = playing(private_layers="classes")[-1]
    examples = still.data.examples
    before, after = run(examples)[0], moving(examples)[0]
    assert still.plan.asked.count((5,)) == 2  # bias and kernel of the private class 5
    for leaf, new, part in zip(
        *map(jax.tree.leaves, (before, after)), still.plan.asked, strict=True
    ):
        rest = np.ones(leaf.shape[0], bool)
        if part:
            rest[list(part)] = False
            assert not np.any(leaf[~rest]) and np.any(new[~rest])
        np.testing.assert_array_equal(leaf[rest], new[rest])
        assert np.any(leaf[rest])  # public training moves all else


def test_before_private_from_an_upload_is_public_and_free():
    made, _, run = playing(mechanism="nbafl", private_from=4)
    _, info = run(made.data.examples)  # in round 3
    assert np.isinf(info.noise_multiplier) and info.noise_std == 0
    _, info = playing(mechanism="nbafl", private_from=3)[-1](made.data.examples)
    assert np.isfinite(info.noise_multiplier) and info.noise_std > 0
