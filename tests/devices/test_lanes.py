"""Mapping over lanes: in order, by falling size, with the same bits on any devices."""

import pathlib
from collections.abc import Callable
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layer_checks import on_devices
from small_runs import small
from stores import digits_store

from fedsvp_jax.core.structs import Array
from fedsvp_jax.core.tree import cell_of, params_sha256
from fedsvp_jax.devices import lanes
from fedsvp_jax.federation import build
from fedsvp_jax.round.state import RoundMetrics
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer

RAGGED = (40, 25, 90, 8, 33, 120, 51, 700, 77, 9)


def mapped(
    num_lanes: int, num_used: int, *, chunk_size: int, num_devices: int
) -> dict[str, np.ndarray]:
    """`map_lanes` of a function whose result tells the lane."""
    rows = jnp.arange(8, dtype=jnp.float32)

    def function(lane: Array) -> tuple[Array, dict[str, Array]]:
        row = rows * (lane + 1).astype(jnp.float32)
        return row, {"lane": lane + 1, "row": row}

    def on_device(devices: lanes.Devices, used: Array) -> dict[str, Array]:
        total, found = lanes.map_lanes(
            *(function, num_lanes, used),
            chunk_size=chunk_size,
            devices=devices,
            known_trips=False,
        )
        return found | {"total": total}

    return on_devices(on_device, num_devices, jnp.int32(num_used))


@pytest.mark.parametrize(
    ("num_lanes", "num_used", "chunk_size", "num_devices"),
    [
        *((1, 1, 2, 1), (7, 7, 1, 3), (7, 7, 5, 2), (7, 7, 2, 1)),
        *((7, 0, 1, 1), (7, 1, 2, 3), (7, 4, 2, 1), (7, 4, 1, 3)),
    ],
)
def test_results_come_in_lane_order_and_chunks_beyond_the_wanted_do_not_run(
    num_lanes: int, num_used: int, chunk_size: int, num_devices: int
) -> None:
    sizes = {"chunk_size": chunk_size, "num_devices": num_devices}
    found = mapped(num_lanes, num_used, **sizes)
    run = chunk_size * -(-num_used // chunk_size)
    lane, rows = np.arange(1, num_lanes + 1), np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(found["lane"], np.where(lane <= run, lane, 0))
    np.testing.assert_array_equal(found["row"], found["lane"][:, None] * rows)
    np.testing.assert_array_equal(found["total"], lane[:num_used].sum() * rows)


def test_the_sum_adds_the_lanes_one_by_one_from_the_first() -> None:
    rows = jnp.asarray([1e8, 1.0, -1e8, 1.0], jnp.float32)
    assert float(lanes.ordered_sum(rows, jnp.float32(0.0))) == 1.0  # in pairs it is 0


@pytest.mark.parametrize(("num_lanes", "chunk_size"), [(1, 3), (12, 1), (40, 3)])
def test_every_place_has_one_lane_and_padding_is_bounded(
    num_lanes: int, chunk_size: int
) -> None:
    @jax.jit
    def made(sizes: Array) -> Array:
        return lanes.lane_order(sizes, chunk_size=chunk_size)

    rng = np.random.default_rng(num_lanes)
    for _ in range(30):
        ragged = np.exp(rng.uniform(0, np.log(5000), num_lanes))
        sizes = np.where(rng.random(num_lanes) < 0.1, 0, ragged).astype(np.int32)
        order = jax.device_get(made(jnp.asarray(sizes)))
        assert sorted(order.tolist()) == list(range(num_lanes))
        starts = range(0, num_lanes, chunk_size)
        most = np.maximum.reduceat(sizes[order], starts)
        steps = chunk_size * most.sum()  # of all lanes, idle ones too
        assert sizes.sum() <= steps <= sizes.sum() + chunk_size * sizes.max()


def one_round(folder: pathlib.Path, num_devices: int) -> tuple[str, RoundMetrics]:
    asked = {"client_chunk_size": 2, "mechanism": "gaussian", "cohort_size": 7}
    config = small(partition="by_writer", num_clients=10, **asked)
    program = build([config], digits_store(folder / "store", sizes=RAGGED))
    trainer = Trainer(program, placement=Placement(num_devices=num_devices))
    state, metrics = trainer.advance(trainer.initial_state(), 0, 1)
    return params_sha256(state.params), cell_of(metrics, (0, 0))


@pytest.mark.bits
def test_a_client_has_the_same_bits_in_any_bucket_and_the_sum_on_any_devices(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorted_bits, metrics = one_round(tmp_path / "1", num_devices=1)
    on_two, _ = one_round(tmp_path / "2", num_devices=2)

    def by_id(sizes: Array, **_: int) -> Array:
        return jnp.arange(sizes.shape[0], dtype=jnp.int32)

    monkeypatch.setattr(lanes, "lane_order", by_id)
    _, metrics_by_id = one_round(tmp_path / "3", num_devices=1)
    assert sorted_bits == on_two
    for name in ("client_id", "num_examples", "update_l2", "weight"):
        ours, theirs = (getattr(m.clients, name) for m in (metrics, metrics_by_id))
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(
        metrics.clients.client_id, np.sort(metrics.clients.client_id)
    )


def test_stacked_lanes_of_nested_vmaps_are_one_axis_and_compute_the_same() -> None:
    shared, table = jnp.arange(3.0), jnp.arange(24.0).reshape(4, 6)
    keys = jax.random.split(jax.random.key(0), 4)

    def outer(mapped: Callable[..., Any], row: Array, key: Array) -> Any:
        def one(column: Array) -> dict[str, Array]:
            noise = jax.random.normal(jax.random.fold_in(key, column), (3,))
            return {"sum": shared * row[column] + noise, "column": column}

        return mapped(one, jnp.arange(6))

    plainly = jax.vmap(partial(outer, lambda one, rows: jax.vmap(one)(rows)))
    joined = jax.jit(jax.vmap(partial(outer, lanes.stacked)))
    chex.assert_trees_all_close(joined(table, keys), plainly(table, keys), rtol=1e-6)
    assert "f32[24,3]" in str(jax.make_jaxpr(joined)(table, keys))
