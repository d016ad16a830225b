"""The round as a whole: its bits, its laws, and what it reports."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from quick_training import quick_training  # noqa: F401, a fixture
from small_runs import digits, small, small_trainer

from fedsvp_jax import prng, tree
from fedsvp_jax.algorithm import (
    aggregation,
    client,
    cohort,
    evaluation,
    local_training,
)
from fedsvp_jax.algorithm.state import RoundMetrics, ServerState
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.devices import lanes
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import Program, build
from fedsvp_jax.structs import Model, Params
from fedsvp_jax.tree import cell_of, params_sha256

PORTION = Placement(rounds_per_call=3)


def configured(**changes: Any) -> ExperimentConfig:
    return small(**({"cohort_size": 5, "num_rounds": 3} | changes))


def run(
    rounds: int = 2, placement: Placement = PORTION, **changes: Any
) -> tuple[ServerState, RoundMetrics]:
    trainer = small_trainer(configured(**changes), placement=placement)
    return trainer.advance(trainer.initial_state(), 0, rounds)


@pytest.mark.parametrize(
    ("chunk", "devices", "model", "dtype"),
    [
        (1, (1, 4), "mlp", "float32"),
        pytest.param(2, (1, 2, 4), "mlp", "float32", marks=pytest.mark.slow),
        pytest.param(5, (1, 3), "small_cnn", "float32", marks=pytest.mark.slow),
        pytest.param(1, (1, 2, 4), "small_cnn", "bfloat16", marks=pytest.mark.slow),
        pytest.param(2, (1, 2, 3), "mlp", "bfloat16", marks=pytest.mark.slow),
    ],
)
@pytest.mark.bits
def test_bits_do_not_depend_on_the_number_of_devices(
    chunk: int, devices: tuple[int, ...], model: str, dtype: str
) -> None:
    hashes = {
        params_sha256(
            run(
                client_chunk_size=chunk,
                model=model,
                compute_dtype=dtype,
                placement=Placement(num_devices=count, rounds_per_call=3),
            )[0].params
        )
        for count in devices
    }
    assert len(hashes) == 1


@pytest.mark.slow  # a compilation per layout: 20 s
@pytest.mark.parametrize("estimator", ["additive", "leave_one_out", "paired"])
def test_estimated_values_have_the_same_bits_on_any_number_of_devices(
    estimator: str,
) -> None:
    """And within rounding on any chunk size."""

    def values(chunk: int, devices: int) -> tuple[str, np.ndarray]:
        state, metrics = run(
            client_chunk_size=chunk,
            num_attributes=4,
            shapley=estimator,
            shapley_trainings=2,
            placement=Placement(num_devices=devices, rounds_per_call=3),
        )
        estimation = metrics.clients.estimation
        assert estimation is not None
        return params_sha256(state.params), np.asarray(estimation.shapley_values)

    by_chunk = {}
    for chunk in (1, 2):
        (digest, found), *others = [values(chunk, devices) for devices in (1, 2, 4)]
        by_chunk[chunk] = found
        assert np.abs(found).max() > 0.01
        for other, same in others:
            assert other == digest
            np.testing.assert_array_equal(same, found)
    # Rounding may turn single validation examples, 1/28 of the accuracy.
    assert np.mean(np.abs(by_chunk[2] - by_chunk[1]) > 0.02) < 0.05


def test_chunk_sizes_agree_within_rounding_after_one_round() -> None:
    reference, _ = run(1)
    state, _ = run(1, client_chunk_size=5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        state.params,
        reference.params,
    )


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    first, second, other = (run(seed=seed)[0] for seed in (0, 0, 1))
    assert params_sha256(first.params) == params_sha256(second.params)
    assert params_sha256(first.params) != params_sha256(other.params)


def test_noise_of_std_zero_is_fedavg_to_the_bit() -> None:
    silent, _ = run(mechanism="gaussian", noise_std=0.0)
    fedavg, _ = run(mechanism="none")
    assert params_sha256(silent.params) == params_sha256(fedavg.params)


def test_privacy_estimation_trains_the_very_model_that_fedavg_trains() -> None:
    fedsva, metrics = run(1, epsilon=0.9)
    fedavg, plain = run(1, mechanism="none")
    np.testing.assert_allclose(
        metrics.clients.update_l2, plain.clients.update_l2, rtol=1e-4
    )
    assert params_sha256(fedsva.params) != params_sha256(fedavg.params)


def test_honest_but_curious_clients_have_a_contribution_of_exactly_zero() -> None:
    _, metrics = run(3, epsilon=0.9)
    curious = np.asarray(metrics.clients.client_id) == 6
    assert curious.any()
    utilities = np.asarray(metrics.clients.estimation.utilities)[curious]
    assert np.all(utilities[:, 0b01] == 0)
    np.testing.assert_array_equal(utilities[:, 0b10], utilities[:, 0b11])
    ratio = np.asarray(metrics.clients.estimation.contribution_ratio)
    assert np.all(ratio[curious] == 0)
    assert np.any(ratio[~curious] > 0)


def test_capped_clients_are_not_asked_again() -> None:
    trainer = small_trainer(configured(), placement=PORTION)
    once = jax.tree.map(jnp.ones_like, trainer.cells.allowance)
    trainer.cells = trainer.cells.replace(allowance=once)
    state, metrics = trainer.advance(trainer.initial_state(), 0, 3)
    asked = np.asarray(metrics.clients.client_id)[:, 0]
    assert sorted(asked[asked >= 0].tolist()) == list(range(7))
    assert (asked[1] >= 0).sum() == 2
    assert (asked[2] >= 0).sum() == 0
    np.testing.assert_array_equal(state.spent[0], np.ones(7))


@pytest.mark.parametrize(
    ("sensitivity", "mechanism"),
    [("weight_clip", "nbafl"), ("update_clip", "nbafl"), ("per_example", "fedsva")],
)
def test_every_sensitivity_runs_and_names_its_bound(
    sensitivity: str, mechanism: str
) -> None:
    _, metrics = run(1, sensitivity=sensitivity, mechanism=mechanism)
    bound = {"weight_clip": 2.0, "update_clip": 2.0, "per_example": 2.0 / 5}
    np.testing.assert_allclose(
        metrics.clients.noise.sensitivity, bound[sensitivity], rtol=1e-6
    )
    assert np.all(np.isfinite(np.asarray(metrics.test_loss)))
    noised = sensitivity != "per_example"  # its noise is in the steps, not the upload
    assert np.all((np.asarray(metrics.aggregate_noise_l2) > 0) == noised)
    assert np.all((np.asarray(metrics.clients.noise.noise_l2) > 0) == noised)


@pytest.mark.slow
def test_cells_side_by_side_equal_cells_in_turn_within_rounding() -> None:
    configs = [
        configured(seed=seed, epsilon=epsilon)
        for seed in (0, 1)
        for epsilon in (0.3, 0.9)
    ]
    results = []
    for placement in (
        Placement(cell_chunk_size=1),
        Placement(cell_chunk_size=2),
        Placement(cell_chunk_size=1, sweep_devices=2, num_devices=2),
    ):
        trainer = small_trainer(*configs, placement=placement)
        state, _ = trainer.advance(trainer.initial_state(), 0, 1)
        results.append(state.params)
    for params in results[1:]:
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
            params,
            results[0],
        )
    alone, _ = run(1, seed=1, epsilon=0.9)
    assert params_sha256(cell_of(results[0], 3)) == params_sha256(
        cell_of(alone.params, 0)
    )


def test_the_round_is_compiled_once() -> None:
    trainer = small_trainer(configured(), placement=PORTION)
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    with jax.no_tracing():
        for done in (1, 2):
            state, _ = trainer.advance(state, done, 1)


def by_hand(made: Program, state: ServerState, round_num: int) -> dict[str, Any]:
    """One round, client by client, for a state of one cell."""
    cell, plan = cell_of(made.cells, 0), made.plan
    key = prng.round_key(cell.root, round_num)
    clients = cohort.sample_cohort(
        prng.stream_key(key, prng.Stream.COHORT),
        plan.num_clients,
        plan.cohort_size,
        eligible=state.admitted
        & (state.spent + cell.allowance.costs[0] <= cell.allowance.budget),
    )
    valid, rows = clients >= 0, jnp.maximum(clients, 0)
    weights = aggregation.client_weights(
        cell.split.num_train[rows],
        valid,
        uniform=plan.uniform_weights or made.mechanism.uniform_weights,
    )
    one = jax.jit(
        lambda client_id, row, weight: client.client_round(
            made.model,
            plan,
            cell,
            state,
            made.data.examples,
            client_id,
            row,
            weight,
            key=key,
            round_num=jnp.int32(round_num),
            lane_axes=(),
        )
    )
    sent = [one(*told) for told in zip(clients, rows, weights, strict=True)]
    took_part = [place for place in range(plan.cohort_size) if clients[place] >= 0]
    params = state.params
    stats = jax.tree.map(jnp.zeros_like, state.stats)
    for place in took_part:
        params = jax.tree.map(jnp.add, params, sent[place][0][0])
        stats = jax.tree.map(jnp.add, stats, sent[place][0][1])
    if state.optimizer is not None:  # FedAvgM; optax keeps the negative velocity
        params = jax.tree.map(
            lambda leaf, old: leaf - plan.server.server_momentum * old,
            params,
            optax.tree.get(state.optimizer, "trace"),
        )
    memories, metrics = jax.tree.map(
        lambda *rows: jnp.stack(rows), *[s[1] for s in sent]
    )
    memory = state.mechanism
    kept = jnp.asarray(took_part)
    memory = state.mechanism.updated(
        clients[kept], jax.tree.map(lambda leaf: leaf[kept], memories)
    )
    if made.mechanism.server is not None:
        params, memory = made.mechanism.server(
            params,
            state.params,
            memory,
            key=prng.stream_key(key, prng.Stream.SERVER_NOISE),
            round_num=jnp.int32(round_num),
            infos=metrics.noise,
            valid=valid,
        )
    score = jax.jit(
        lambda params: evaluation.evaluate(
            made.model,
            params,
            stats,
            made.data.test,
            batch_size=plan.test_batch_size,
            devices=lanes.Devices(1, jnp.int32(0)),
        )
    )(params)
    stds = np.where(valid, metrics.noise.noise_std, 0.0)
    size = tree.num_parameters(params)
    return {
        "params": params,
        "stats": stats,
        "memory": memory,
        "clients": clients,
        "spent": state.spent.at[rows].add(valid.astype(jnp.int32)),
        "upload_noise": metrics.noise.noise_std[kept],
        "score": (score.accuracy, score.loss),
        "aggregate_noise_l2": np.sqrt(size * np.sum(np.square(weights * stds))),
        "steps": np.sum(metrics.steps[kept]),
    }


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


@pytest.mark.usefixtures("quick_training")
@pytest.mark.parametrize(
    ("chunk", "changes"),
    [
        (1, {"mechanism": "reestimation", "weighting": "uniform"}),
        (1, {"mechanism": "nbafl", "downlink_noise": True, "server_momentum": 0.5}),
        (2, {"mechanism": "dp_fedavg", "adaptive_clip": True}),
    ],
    ids=lambda value: value["mechanism"] if isinstance(value, dict) else str(value),
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
    made = build([config], digits(), model=keeps_statistics())
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
    expected = by_hand(made, cell_of(state, 0), 0)
    assert (state.optimizer is None) == ("server_momentum" not in changes)
    axes, stand_in = [], local_training.local_update
    monkeypatch.setattr(
        local_training,
        "local_update",
        lambda *told, lane_axes, **named: (
            axes.append(lane_axes) or stand_in(*told, lane_axes=lane_axes, **named)
        ),
    )
    after, metrics = trainer.advance(trainer.place(state), 0, 1)
    assert all((lanes.LANE in named) == (chunk > 1) for named in axes) and axes
    found = cell_of(after, 0)
    row = jax.tree.map(lambda leaf: leaf[0, 0], metrics)
    assert row.clients.client_id.tolist() == expected["clients"].tolist()
    assert row.clients.client_id.tolist() == [1, 4, 5, -1]
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        (found.params, found.stats, found.mechanism),
        (expected["params"], expected["stats"], expected["memory"]),
    )
    np.testing.assert_array_equal(found.spent, expected["spent"])
    assert found.admitted.tolist() == [id_ != 2 for id_ in range(7)]
    np.testing.assert_allclose(
        row.clients.noise.noise_std[:3], expected["upload_noise"], rtol=1e-5
    )
    np.testing.assert_allclose(
        row.aggregate_noise_l2, expected["aggregate_noise_l2"], rtol=1e-5
    )
    np.testing.assert_allclose(
        (row.test_accuracy, row.test_loss), expected["score"], rtol=1e-3
    )
    if chunk == 1:
        assert row.steps_run == expected["steps"]
    assert row.model_finite


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


@pytest.mark.usefixtures("quick_training")
def test_a_model_is_scored_in_every_nth_round_and_in_the_last() -> None:
    made = build([small(mechanism="none", num_rounds=5, eval_every=2)], digits())
    trainer = Trainer(made, placement=Placement(rounds_per_call=5))
    _, metrics = trainer.advance(trainer.initial_state(), 0, 5)
    for values in (metrics.test_accuracy, metrics.test_loss):
        assert np.isnan(values[:, 0]).tolist() == [True, False, True, False, False]
