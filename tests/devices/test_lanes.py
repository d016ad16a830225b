"""Mapping over lanes: the results of a plain vmap, in order, on any devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from fedsvp_jax.devices import lanes
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.structs import Array


def mapped(
    num_lanes: int, num_used: int, *, chunk_size: int, num_devices: int
) -> dict[str, np.ndarray]:
    """`map_lanes` of a function whose result tells the lane."""
    rows = jnp.arange(8, dtype=jnp.float32)

    def function(lane: Array) -> tuple[Array, dict[str, Array]]:
        row = rows * (lane + 1).astype(jnp.float32)
        return row, {"lane": lane + 1, "row": row}

    def on_device(index: Array, used: Array) -> dict[str, Array]:
        total, found = lanes.map_lanes(
            function,
            num_lanes,
            used,
            chunk_size=chunk_size,
            devices=lanes.Devices(num_devices, index[0]),
        )
        return found | {"total": total}

    run = jax.shard_map(
        on_device,
        mesh=Placement(num_devices=num_devices).mesh(),
        in_specs=(PartitionSpec(lanes.CLIENT_AXIS), PartitionSpec()),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    index = jnp.arange(num_devices, dtype=jnp.int32)
    return jax.device_get(jax.jit(run)(index, jnp.int32(num_used)))


@pytest.mark.parametrize("num_devices", [1, 2, 3, 4])
@pytest.mark.parametrize("chunk_size", [1, 2, 5])
@pytest.mark.parametrize("num_lanes", [1, 5, 7])
def test_results_come_back_in_lane_order_on_any_devices_and_chunks(
    num_lanes: int, chunk_size: int, num_devices: int
) -> None:
    found = mapped(num_lanes, num_lanes, chunk_size=chunk_size, num_devices=num_devices)
    expected = np.arange(1, num_lanes + 1)
    np.testing.assert_array_equal(found["lane"], expected)
    np.testing.assert_array_equal(
        found["row"], expected[:, None] * np.arange(8, dtype=np.float32)
    )
    np.testing.assert_array_equal(
        found["total"], expected.sum() * np.arange(8, dtype=np.float32)
    )


@pytest.mark.parametrize("num_devices", [1, 3])
@pytest.mark.parametrize("chunk_size", [1, 2])
@pytest.mark.parametrize("num_used", [0, 1, 4, 7])
def test_chunks_beyond_the_wanted_lanes_do_not_run_and_unwanted_lanes_add_nothing(
    num_used: int, chunk_size: int, num_devices: int
) -> None:
    found = mapped(7, num_used, chunk_size=chunk_size, num_devices=num_devices)
    expected = np.arange(1, 8)
    np.testing.assert_array_equal(found["lane"][:num_used], expected[:num_used])
    started = chunk_size * -(-num_used // chunk_size)
    np.testing.assert_array_equal(found["lane"][started:], 0)
    np.testing.assert_array_equal(
        found["total"], expected[:num_used].sum() * np.arange(8, dtype=np.float32)
    )


def test_a_common_bound_is_the_largest_of_all_lanes() -> None:
    def bound(value: Array) -> Array:
        return lanes.largest(value, (lanes.LANE,))

    values = jnp.asarray([3, 9, 4], jnp.int32)
    np.testing.assert_array_equal(
        jax.vmap(bound, axis_name=lanes.LANE)(values), [9, 9, 9]
    )
    assert lanes.largest(values, ()) is values


def test_the_sum_adds_the_lanes_one_by_one_from_the_first() -> None:
    rows = jnp.asarray([1e8, 1.0, -1e8, 1.0], jnp.float32)
    total = lanes.ordered_sum(rows, jnp.float32(0.0))
    expected = np.float32(0.0)
    for row in np.asarray(rows):
        expected += row
    assert float(total) == float(expected) == 1.0


def test_more_devices_than_the_machine_has_are_refused() -> None:
    with pytest.raises(ValueError, match="num_devices must be at most 4"):
        Placement(num_devices=5).mesh()
