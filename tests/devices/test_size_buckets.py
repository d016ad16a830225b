"""Buckets by size: a permutation, a bound on the padding, and the same bits."""

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import small
from stores import digits_store

from fedsvp_jax.algorithm.state import RoundMetrics
from fedsvp_jax.devices import lanes
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import build
from fedsvp_jax.run import records
from fedsvp_jax.structs import Array
from fedsvp_jax.tree import params_sha256

RAGGED = (40, 25, 90, 8, 33, 120, 51, 700, 77, 9)


def chunks_of(order: np.ndarray, chunk_size: int) -> list[list[int]]:
    starts = range(0, len(order), chunk_size)
    return [order[start : start + chunk_size].tolist() for start in starts]


@pytest.mark.parametrize("chunk_size", [1, 3, 4])
@pytest.mark.parametrize("num_lanes", [1, 12, 40])
def test_every_place_has_one_lane_and_padding_is_bounded(
    num_lanes: int, chunk_size: int
) -> None:
    @jax.jit
    def made(sizes: Array) -> tuple[Array, Array]:
        order = lanes.lane_order(sizes, chunk_size=chunk_size)
        run = lanes.steps_run(sizes[:, None], order, chunk_size=chunk_size)
        return order, run

    rng = np.random.default_rng(num_lanes)
    for _ in range(30):
        ragged = np.exp(rng.uniform(0, np.log(5000), num_lanes))
        sizes = np.where(rng.random(num_lanes) < 0.1, 0, ragged).astype(np.int32)
        order, run = jax.device_get(made(jnp.asarray(sizes)))
        assert sorted(order.tolist()) == list(range(num_lanes))
        assert run == chunk_size * sum(
            int(sizes[chunk].max()) for chunk in chunks_of(order, chunk_size)
        )
        assert sizes.sum() <= run <= sizes.sum() + chunk_size * sizes.max()


def one_round(folder: pathlib.Path, **changes: Any) -> tuple[str, RoundMetrics]:
    placement = Placement(num_devices=changes.pop("num_devices", 1))
    config = small(partition="by_writer", num_clients=10, cohort_size=7, **changes)
    store = digits_store(folder / "store", sizes=RAGGED)
    trainer = Trainer(build([config], store), placement=placement)
    state, metrics = trainer.advance(trainer.initial_state(), 0, 1)
    return params_sha256(state.params), next(records.rounds_of(metrics, 0))


def test_a_client_has_the_same_bits_in_any_bucket_and_the_sum_on_any_devices(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {"client_chunk_size": 2, "mechanism": "gaussian"}
    sorted_bits, metrics = one_round(tmp_path / "1", **how)
    on_two, _ = one_round(tmp_path / "2", **how, num_devices=2)

    def by_id(sizes: Array, **_: int) -> Array:
        return jnp.arange(sizes.shape[0], dtype=jnp.int32)

    monkeypatch.setattr(lanes, "lane_order", by_id)
    _, metrics_by_id = one_round(tmp_path / "3", **how)
    assert sorted_bits == on_two
    for name in ("client_id", "num_examples", "update_l2", "weight", "steps"):
        ours, theirs = (getattr(m.clients, name) for m in (metrics, metrics_by_id))
        np.testing.assert_array_equal(ours, theirs)
    assert metrics.steps_run < metrics_by_id.steps_run
    np.testing.assert_array_equal(
        metrics.clients.client_id, np.sort(metrics.clients.client_id)
    )


def test_a_client_by_itself_runs_the_steps_that_it_needs(
    tmp_path: pathlib.Path,
) -> None:
    """One epoch of batches of 5, for the private class, the others and both."""
    _, metrics = one_round(tmp_path, client_chunk_size=1)
    row = records.round_row(metrics, round_num=1, spent={})
    assert row["steps_run"] == row["steps_needed"] == metrics.clients.steps.sum()
    sizes = metrics.clients.num_examples
    np.testing.assert_array_equal(
        metrics.clients.steps[:, -1], np.maximum(sizes // 5, 1)
    )
    assert metrics.clients.steps.shape == (7, 3)
    more = dataclasses.replace(metrics, steps_run=metrics.steps_run + 1)
    changed = records.round_row(more, round_num=1, spent={})
    assert changed["steps_run"] == row["steps_needed"] + 1
