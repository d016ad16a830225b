"""Attribute records: what a neighbour can move, and what it cannot."""

import dataclasses
from functools import cache
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from published import epsilon_of
from small_runs import digits, shared_trainer, small

from fedsvp_jax.core import prng
from fedsvp_jax.core.prng import Address
from fedsvp_jax.core.structs import Array, Examples, NoiseInfo, Params
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import Column
from fedsvp_jax.federation import Program, build
from fedsvp_jax.round import federated_round, private_query
from fedsvp_jax.round.state import initial_state

CLIENT = 2
CLIP, WEIGHT, MARGIN = 0.25, 2.0, 1.5


@cache
def program(**changes: Any) -> Program:
    settings = {
        "mechanism": "none",
        "clipping": "attribute_records",
        "private_clip": CLIP,
        "private_weight": WEIGHT,
        "private_margin": MARGIN,
        "class_share": 0.1,
        "num_hbc_clients": 0,
    }
    return build([small(**(settings | changes))], digits())


@cache
def playing(**changes: Any) -> Any:
    """The program, its state and the compiled round of one client."""
    made = program(**changes)
    cell = cell_of(made.cells, 0)
    state = initial_state(made.model, made.plan, made.data.example, cell)
    # away from the initial symmetry
    state = state.replace(params=jax.tree.map(lambda x: x + 0.01, state.params))

    def run(
        examples: Examples, remembered: float = 0.03
    ) -> tuple[Params, list[Array], NoiseInfo]:
        told = state.replace(answer=[leaf + remembered for leaf in state.answer])
        key = prng.round_key(prng.root_key(7), 3)
        (upload, _), (_, metrics, _) = federated_round.client_round(
            *(made.model, made.plan, cell, told, examples),
            address=Address(key, jnp.int32(CLIENT), jnp.int32(3)),
            row=jnp.int32(CLIENT),
            weight=jnp.float32(1.0),
        )
        return upload.update, upload.answer, metrics.noise

    return made, state, jax.jit(run)


def test_every_local_step_goes_along_what_the_server_remembers():
    """A step along a drift is tested with local training."""
    made, state, run = playing(private_layers="last")
    still, moved = (run(made.data.examples, remembered)[0] for remembered in (0.0, 0.5))
    assert optax.tree.norm(jax.tree.map(jnp.subtract, still, moved)) > 0
    answer = [leaf + 0.5 for leaf in state.answer]
    drift = private_query.remembered(
        state.params, answer, made.plan.query_parts, weight=WEIGHT
    )
    for leaf, part in zip(jax.tree.leaves(drift), made.plan.query_parts, strict=True):
        np.testing.assert_array_equal(leaf, WEIGHT * 0.5 if part else 0)


def test_the_server_remembers_the_cohorts_average_answer():
    made, _, _ = playing()
    trainer = shared_trainer(made)
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    assert 0 < optax.tree.norm(state.answer) <= CLIP * (1 + 1e-5)


def test_the_noise_is_on_the_answer_alone_and_as_large_as_promised():
    settings = {"mechanism": "gaussian", "epsilon": 0.5, "private_layers": "last"}
    made, _, run = playing(**settings)
    upload, noised, info = run(made.data.examples)
    silent, plain, _ = playing(private_layers="last")[-1](made.data.examples)
    chex.assert_trees_all_close(upload, silent, rtol=1e-4, atol=1e-6)
    shapes = [
        leaf.shape for leaf in private_query.chosen(upload, made.plan.query_parts)
    ]
    assert [leaf.shape for leaf in noised] == shapes and len(shapes) == 2
    drawn = ravel_pytree(noised)[0] - ravel_pytree(plain)[0]
    held = cell_of(cell_of(made.cells, 0).split, CLIENT)
    rows = np.asarray(held.train)[: int(held.num_train)]
    bound = 2 * CLIP / np.sum(np.asarray(made.data.examples.attributes)[rows] == 0)
    std = float(info.noise_std)
    assert 0.9 * std < jnp.std(drawn) < 1.1 * std
    np.testing.assert_allclose(info.noise_multiplier, std / bound, rtol=1e-5)
    delta = made.configs[0].delta
    assert epsilon_of(std / bound, delta) == pytest.approx(0.5, rel=1e-4)


def test_a_client_without_private_records_answers_nothing_for_free():
    made, _, run = playing(mechanism="nbafl", epsilon=0.5)
    examples = made.data.examples
    nobody = Examples(examples.inputs, examples.labels, jnp.ones_like(examples.labels))
    _, answer, info = run(nobody)
    assert np.isinf(info.noise_multiplier) and info.noise_std == 0
    assert info.epsilon == 0 and info.delta == 0
    assert not any(map(np.any, answer))


def test_the_private_classes_logits_are_moved_by_the_answers_alone():
    made, _, run = playing(private_layers="classes")
    examples = made.data.examples
    still, answer, _ = run(examples, 0.0)
    moving, _, _ = run(examples, 0.5)
    assert (
        made.plan.query_parts.count((5,)) == 2
    )  # bias and kernel of the private class 5
    assert [leaf.shape[0] for leaf in answer] == [1, 1]
    for leaf, new, part in zip(
        *map(jax.tree.leaves, (still, moving)), made.plan.query_parts, strict=True
    ):
        if part:
            assert not np.any(leaf[part[0]]) and np.all(new[part[0]])
        rest = np.delete(leaf, list(part or ()), axis=0)
        assert np.any(rest)  # public training moves all else


def test_layers_are_known_of_models_by_name_and_a_margin_needs_a_private_class():
    made = program(private_layers="last")
    assert 0 < sum(made.plan.query_parts) < len(made.plan.query_parts)
    asked = {"clipping": "attribute_records"}
    with pytest.raises(ValueError, match="private_layers must be all"):
        build([small(**asked, private_layers="last")], digits(), model=made.model)
    codes = np.arange(len(digits().train_labels), dtype=np.int32) % 2
    columns = {"hand": Column(codes, ("left", "right"))}
    with_hands = dataclasses.replace(digits(), columns=columns)
    told = {"attributes": "column:hand", "private_attribute": 1}
    with pytest.raises(ValueError, match="private_margin must be 0"):
        build([small(**asked, **told, private_margin=1.0)], with_hands)
