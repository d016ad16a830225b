"""The round as a whole: what its clients send, summed one by one, and what it costs.

The clients' work, clips and noise are the package's own functions, called client by
client: no independent oracle of them, but of lanes, order, sum and the server's step.
"""

import dataclasses
from typing import Any
from unittest import mock

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from deployed import ROWS
from jax.flatten_util import ravel_pytree
from quick_training import quick_training  # noqa: F401, a fixture
from small_runs import digits, small, small_trainer

from fedsvp_jax.core import prng, tree
from fedsvp_jax.core.prng import Address
from fedsvp_jax.core.structs import Array, Model, Params, Weights
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import preprocessing
from fedsvp_jax.devices import lanes
from fedsvp_jax.federation import Program, build
from fedsvp_jax.mechanisms.grid import grid_step
from fedsvp_jax.models import aggregation
from fedsvp_jax.round import client_work, cohort, local_training, privacy_estimation
from fedsvp_jax.round.state import ServerState, Task, rows_of
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer


def client_by_hand(
    made: Program, state: ServerState, row: Array, weight: Array, at: Address
) -> tuple[Any, Any, dict[str, Any]]:
    """One client, step by step: ((upload, statistics) as weighed, memory, metrics)."""
    cell, plan, examples = cell_of(made.cells, 0), made.plan, made.data.examples
    held, mechanism, rates = cell_of(cell.split, row), made.mechanism, cell.rates
    ratio, estimation = jnp.float32(1.0), None
    start = Weights(state.params, state.stats)
    if mechanism.needs_contribution:
        task = Task(made.model, plan, cell, mechanism, state, examples, held, at)
        trained, estimation = privacy_estimation.estimate_contribution(task)
        ratio = client_work.released_ratio(
            estimation.contribution_ratio, cell.mechanism, at
        )
    in_steps = mechanism.step_noise_std is not None
    if in_steps:
        std = mechanism.step_noise_std(ratio, round_num=at.round_num)
        rates = rates._replace(step_noise_std=std)
    if in_steps or estimation is None:
        trained = client_work.train(
            *(made.model, plan.recipe, rates, start, rows_of(examples, held), at)
        )
    update = jax.tree.map(jnp.subtract, trained[0], state.params)
    told = {"num_examples": held.num_train, "ratio": ratio, "params": state.params}
    memory = state.mechanism.of(at.client)
    upload, memory, info = client_work.add_noise(
        mechanism, update, memory, **told, at=at
    )
    metrics = {
        "client_id": at.client,
        "num_examples": held.num_train,
        "weight": weight,
        "update_l2": tree.l2_norm(update),
        "released_ratio": ratio,
        "estimation": estimation,
        "noise": info,
    }
    sent = jax.tree.map(lambda leaf: weight * leaf, (upload, trained[1]))
    return sent, memory, metrics


def by_hand(
    made: Program, state: ServerState, clients: Array
) -> tuple[Any, dict[str, Any]]:
    """Round 0, client by client: ((params, stats, memory) after it, metrics)."""
    cell, plan = cell_of(made.cells, 0), made.plan
    key = prng.round_key(cell.root, 0)
    valid, rows = clients >= 0, jnp.maximum(clients, 0)
    uniform = plan.uniform_weights or made.mechanism.uniform_weights
    sizes = cell.split.num_train[rows]
    weights = aggregation.client_weights(sizes, valid, uniform=uniform)
    one = jax.jit(
        lambda client_id, row, weight: client_by_hand(
            made, state, row, weight, Address(key, client_id, jnp.int32(0))
        )
    )
    sent = [one(*told) for told in zip(clients, rows, weights, strict=True)]
    took_part = np.flatnonzero(valid)
    params, stats = state.params, jax.tree.map(jnp.zeros_like, state.stats)
    for place in took_part:
        params, stats = jax.tree.map(jnp.add, (params, stats), sent[place][0])
    if state.optimizer is not None:  # FedAvgM; optax keeps the negative velocity
        params = jax.tree.map(
            lambda leaf, old: leaf - plan.server.server_momentum * old,
            params,
            optax.tree.get(state.optimizer, "trace"),
        )
    _, memories, metrics = jax.tree.map(lambda *rows: jnp.stack(rows), *sent)
    kept, memories = jax.tree.map(lambda leaf: leaf[took_part], (metrics, memories))
    memory = state.mechanism.updated(clients[took_part], memories)
    if made.mechanism.server is not None:
        params, memory = made.mechanism.server(
            params,
            state.params,
            memory,
            key=prng.stream_key(key, prng.Stream.SERVER_NOISE),
            round_num=jnp.int32(0),
            infos=metrics["noise"],
            valid=valid,
        )
    return (params, stats, memory), kept


def keeps_statistics() -> Model:
    """A linear model whose logits follow a statistic too."""

    def init(key: jax.Array, example: jax.Array) -> tuple[Params, Params]:
        size = example[0].size
        return {"w": jax.random.normal(key, (size, 10)) / size}, {
            "shift": jnp.ones((1, 10))
        }

    def apply(
        params: Params, stats: Params, x: jax.Array, *, train: bool, key: Any
    ) -> tuple[jax.Array, Params]:
        del train, key
        return x.reshape(len(x), -1) @ params["w"] + stats["shift"], stats

    return Model(init, apply)


GUIDED = {"mechanism": "fedsva", "epsilon": 0.9}


@pytest.mark.usefixtures("quick_training")
@pytest.mark.parametrize(
    ("chunk", "changes"),
    [
        (1, {"mechanism": "reestimation", "weighting": "uniform"}),
        (1, {"mechanism": "nbafl", "downlink_noise": True, "server_momentum": 0.5}),
        (2, {"mechanism": "dp_fedavg", "adaptive_clip": True}),
        (1, GUIDED | {"contribution_release": "laplace"}),
        (1, GUIDED | {"clipping": "per_example", "l2_norm_clip": 0.5}),
    ],
    ids=str,
)
def test_a_round_is_what_its_clients_send_summed_in_turn(
    chunk: int, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a place that nobody fills, and after rounds in which others uploaded.

    The clients have different sizes and the model keeps statistics.
    """
    asked = {"cohort_size": 4, "num_rounds": 1, "client_chunk_size": chunk}
    unequal = {"partition": "dirichlet", "num_hbc_clients": 0}
    config = small(**asked | unequal | changes)
    model = None if "epsilon" in changes else keeps_statistics()
    made = build([config], digits(), model=model)
    assert made.data.min_num_examples < made.data.max_num_examples
    once = jax.tree.map(jnp.ones_like, made.cells.allowance)
    capped = made.cells.replace(allowance=once)
    made = dataclasses.replace(made, cells=capped)
    trainer = Trainer(made)
    state = trainer.initial_state()
    state = state.replace(
        spent=jnp.asarray([[1, 0, 0, 1, 0, 0, 1]], jnp.int32),
        admitted=jnp.asarray([[True, True, False, True, True, True, True]]),
        optimizer=jax.tree.map(lambda leaf: 0.1 * jnp.ones_like(leaf), state.optimizer),
    )
    present = jnp.asarray([1, 4, 5, -1], jnp.int32)  # of a cohort of four
    expected, of_clients = by_hand(made, cell_of(state, 0), present)
    assert (state.optimizer is None) == ("server_momentum" not in changes)
    spy = mock.Mock(side_effect=local_training.local_update)
    monkeypatch.setattr(local_training, "local_update", spy)
    after, metrics = trainer.advance(trainer.place(state), 0, 1)
    axes = [call.kwargs["lane_axes"] for call in spy.call_args_list]
    assert all((lanes.LANE in named) == (chunk > 1) for named in axes) and axes
    found = cell_of(after, 0)
    row = jax.tree.map(lambda leaf: leaf[0, 0], metrics)
    assert row.clients.client_id.tolist() == present.tolist()
    close = {"rtol": 1e-4, "atol": 1e-5}
    after_round = found.params, found.stats, found.mechanism
    chex.assert_trees_all_close(after_round, expected, **close)
    assert found.spent.tolist() == [1, 1, 0, 1, 1, 1, 1]
    assert found.admitted.tolist() == [id_ != 2 for id_ in range(7)]
    for name, value in of_clients.items():
        told = jax.tree.map(lambda leaf: leaf[:3], getattr(row.clients, name))
        chex.assert_trees_all_close(told, value, **close)
    nobody = jax.tree.map(lambda leaf: leaf[3], row.clients)
    assert nobody.num_examples == nobody.update_l2 == 0
    assert np.all(row.clients.finite[:3]) and row.model_finite
    variance = np.sum((of_clients["weight"] * of_clients["noise"].noise_std) ** 2)
    noise = np.sqrt(tree.num_parameters(found.params) * variance)
    np.testing.assert_allclose(row.aggregate_noise_l2, noise, rtol=1e-5)
    logits, _ = made.model.apply(
        *(found.params, found.stats, preprocessing.normalize(made.data.test.inputs)),
        train=False,
        key=None,
    )
    right = jnp.argmax(logits, -1) == made.data.test.labels
    np.testing.assert_allclose(row.test_accuracy, right.mean(), rtol=1e-3)


@pytest.mark.parametrize("trust", ["nobody", "secure_aggregation"])
def test_a_round_of_gradients_is_one_step_along_their_noised_mean(trust: str) -> None:
    """Of all rows of a client, clipped one by one; B is the largest client's."""
    settings = ROWS | {"noise_trust": trust, "batch_size": 1000, "num_rounds": 2}
    config = small(
        **settings | {"paired_noise": True},
        **{"cohort_size": 2, "learning_rate": 3.0, "learning_rate_schedule": "cosine"},
    )
    made = build([config], digits())
    trainer = Trainer(made)
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    before = cell_of(jax.tree.map(jnp.copy, state), 0)
    after, metrics = trainer.advance(state, 1, 1)
    row, cell = cell_of(metrics, (0, 0)), cell_of(made.cells, 0)

    def loss(params: Params, x: Array, y: Array) -> Array:
        logits, _ = made.model.apply(params, {}, x[None], train=True, key=None)
        return optax.softmax_cross_entropy_with_integer_labels(logits[0], y)

    gradient = jax.jit(jax.grad(loss))
    mean, clients = 0.0, [int(client) for client in row.clients.client_id]
    weights = cell.split.num_train[jnp.asarray(clients)]
    weights = weights / weights.sum() if trust == "nobody" else np.full(2, 0.5)
    for client, weight in zip(clients, weights, strict=True):
        rows = cell.split.train[client][: int(cell.split.num_train[client])]
        total = 0.0
        for place in rows:
            x = preprocessing.normalize(made.data.examples.inputs[place])
            one = gradient(before.params, x, made.data.examples.labels[place])
            flat = np.float64(ravel_pytree(one)[0])
            total += flat / max(1.0, np.linalg.norm(flat) / config.l2_norm_clip)
        total = ravel_pytree(before.params)[1](
            jnp.float32(total / made.data.max_num_examples)
        )
        sent, _, _ = client_work.add_noise(
            made.mechanism,
            total,
            before.mechanism.of(client),
            num_examples=jnp.int32(len(rows)),
            ratio=jnp.float32(1),
            params=before.params,
            at=Address(prng.round_key(cell.root, 1), client, jnp.int32(1)),
        )
        mean += float(weight) * np.float64(ravel_pytree(sent)[0])
    moved = ravel_pytree(cell_of(after.params, 0))[0] - ravel_pytree(before.params)[0]
    rate = 3.0 * (1 + np.cos(np.pi / 2)) / 2
    grid = float(row.clients.noise.noise_std[0]) * 1e-3  # a number may round otherwise
    np.testing.assert_allclose(moved, -rate * mean, rtol=1e-4, atol=rate * grid)
    variance = np.sum((weights * np.asarray(row.clients.noise.noise_std)) ** 2)
    noise = rate * np.sqrt(moved.size * variance)
    np.testing.assert_allclose(row.aggregate_noise_l2, noise, rtol=1e-4)


@pytest.mark.usefixtures("quick_training")
def test_a_round_without_clients_leaves_model_and_statistics_as_they_are() -> None:
    moved_by = {"downlink_noise": True, "server_momentum": 0.5}
    config = small(mechanism="nbafl", num_rounds=1, eval_every=2, **moved_by)
    trainer = Trainer(build([config], digits(), model=keeps_statistics()))
    before = trainer.initial_state()
    before = before.replace(
        admitted=jnp.zeros_like(before.admitted),
        optimizer=jax.tree.map(jnp.ones_like, before.optimizer),
    )
    weights = np.array(before.params["w"])  # the round takes the state's memory
    after, metrics = trainer.advance(trainer.place(before), 0, 1)
    assert np.all(np.asarray(metrics.clients.client_id) == cohort.NOBODY)
    np.testing.assert_array_equal(after.params["w"], weights)
    np.testing.assert_array_equal(after.stats["shift"], np.ones((1, 1, 10)))


PORTION = Placement(rounds_per_call=3)
CONFIG = small(cohort_size=5, num_rounds=3)


def test_every_upload_costs_its_client_what_its_round_costs() -> None:
    """With costs that grow, so that no round's cost stands for another's."""
    trainer = small_trainer(CONFIG, placement=PORTION)
    costs = jnp.asarray([[1, 10, 100]], jnp.int32)
    kept = trainer.cells.allowance._replace(costs=costs, budget=jnp.int32([111]))
    trainer.cells = dataclasses.replace(trainer.cells, allowance=kept)
    state, metrics = trainer.advance(trainer.initial_state(), 0, 3)
    clients = np.asarray(metrics.clients.client_id)[:, 0]
    expected = np.zeros(7, np.int32)
    for cost, ids in zip((1, 10, 100), clients, strict=True):
        expected[ids] += cost
    np.testing.assert_array_equal(state.spent[0], expected)


def test_the_round_is_compiled_once() -> None:
    trainer = small_trainer(CONFIG, placement=PORTION)
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    with jax.no_tracing():
        for done in (1, 2):
            state, _ = trainer.advance(state, done, 1)


@pytest.mark.usefixtures("quick_training")
def test_the_server_moves_the_model_by_a_sum_of_residues() -> None:
    settings = {
        "mechanism": "gaussian",
        "epsilon": 15.0,
        "l2_norm_clip": 0.1,
        "clipping": "update_clip",
        "relation": "add_remove",
        "noise_sampler": "discrete",
        "noise_trust": "secure_aggregation",
        "cohort_size": 4,
        "num_rounds": 1,
        "client_chunk_size": 1,
    }
    made = build([small(**settings)], digits())
    trainer = Trainer(made)
    state = trainer.initial_state()
    before = np.asarray(ravel_pytree(state.params)[0])
    after, metrics = trainer.advance(state, 0, 1)
    step = np.asarray(ravel_pytree(after.params)[0]) - before
    std = float(metrics.clients.noise.noise_std[0, 0, 0])
    grid = made.mechanism.grid
    assert grid.summed == 4 and made.mechanism.basis.central
    unit = float(grid_step(grid, jnp.float32(std))) / 4
    # The weights that the step was added to cost digits, not the grid.
    assert np.mean(np.abs(step / unit - np.round(step / unit)) < 0.05) > 0.95
    assert np.std(step) == pytest.approx(std / 2, rel=0.1)
