"""Arrays, devices and comparisons for the tests of layers and lanes."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from fedsvp_jax.core.structs import Array
from fedsvp_jax.devices import lanes
from fedsvp_jax.run.placement import Placement

# Laws hold at any optimisation level; this one compiles in half of the time. The
# models' own shapes are tested as they run.
quick_jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0}
)


def normal(seed: int, *shape: int) -> Array:
    """N(0, 1) in float32."""
    return jax.random.normal(jax.random.key(seed), shape, jnp.float32)


def assert_close(ours: Any, reference: Any, scale: float = 1.0) -> None:
    """Trees equal within float32 rounding of sums whose terms are of order `scale`."""
    chex.assert_trees_all_close(ours, reference, rtol=2e-5, atol=2e-5 * scale)


def window_pool(x: Array) -> Array:
    """XLA's own 2x2 max-pool."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def on_devices(compute: Callable[..., Any], count: int, *told: Array) -> Any:
    """What so many devices compute together: of `lanes.Devices` and what it is told."""
    run = jax.shard_map(
        lambda index, *told: compute(lanes.Devices(count, index[0]), *told),
        mesh=Placement(num_devices=count).mesh(),
        in_specs=(PartitionSpec(lanes.CLIENT_AXIS), *[PartitionSpec()] * len(told)),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    return jax.device_get(jax.jit(run)(jnp.arange(count, dtype=jnp.int32), *told))
