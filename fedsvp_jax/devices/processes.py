"""What several processes of one run share; here there is one, and nothing is sent.

`fedsvp_jax.cluster` starts several. Each runs the same command, holds some of the
mesh's devices and computes every round. Only process 0 reads checkpoints and writes
files, and it sends the others what it reads. In one process no service is started, and
the functions that share data return it unchanged.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Sharding

T = TypeVar("T")

_cluster: Any = None  # the module, once this process has joined others


def joined(cluster: Any) -> None:
    """From now on there are several processes, which share data by this module."""
    global _cluster
    _cluster = cluster


def started() -> bool:
    """Whether `cluster.start` joined other processes."""
    return _cluster is not None


def several() -> bool:
    """Whether there is more than one process."""
    return started() and jax.process_count() > 1


def is_first() -> bool:
    """Whether this process is the one that reads and writes files and prints."""
    return not started() or jax.process_index() == 0


def devices(count: int) -> list[jax.Device]:
    """`count` devices, the same number from each process.

    Raises:
      ValueError: there are fewer devices, or `count` is not a multiple of the number
        of processes. The message continues the name of the caller's setting.
    """
    everyone = jax.devices()
    if count > len(everyone):
        raise ValueError(
            f"must be at most {len(everyone)}, the devices that JAX sees, got {count}"
        )
    share, rest = divmod(count, jax.process_count())
    if rest:
        raise ValueError(
            f"must be a multiple of the {jax.process_count()} processes, got {count}"
        )
    taken = dict.fromkeys(range(jax.process_count()), 0)
    chosen = []
    for device in everyone:
        if taken[device.process_index] < share:
            taken[device.process_index] += 1
            chosen.append(device)
    return chosen


def place(tree: T, sharding: Sharding) -> T:
    """Lays arrays, which every process holds as a whole, out over all devices.

    Each process copies its own part of them; nothing is sent.

    Args:
      tree: arrays, the same in every process.
      sharding: where the parts go.
    """
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)

    def put(leaf: Any) -> jax.Array:
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = put(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        host = np.asarray(leaf)
        return jax.make_array_from_callback(
            host.shape, sharding, lambda index: host[index]
        )

    return jax.tree.map(put, tree)


def to_host(tree: T) -> T:
    """The whole arrays as numpy in every process; all processes must call it."""

    def get(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            if not leaf.is_fully_replicated:
                return _cluster.gathered(leaf)
            return np.asarray(leaf)
        return jax.device_get(leaf)

    return jax.tree.map(get, tree)


def arrays_from_first(tree: T) -> T:
    """The arrays of process 0, in every process.

    Args:
      tree: process 0's arrays; in the other processes any of the same shapes and types.
    """
    if not several():
        return tree
    shared: T = _cluster.arrays_from_first(tree)
    return shared


def from_first(make: Callable[[], T]) -> T:
    """The value of `make()` in process 0, in every process.

    Args:
      make: called in process 0 only; returns what JSON can hold.

    Raises:
      ValueError, OSError: `make` raised it. The other processes raise a ValueError with
        the same message.
    """
    if not several():
        return make()
    value: T = _cluster.from_first(make)
    return value


def by_first(function: Callable[..., T]) -> Callable[..., T]:
    """The function as process 0 calls it, with its result in every process."""

    @functools.wraps(function)
    def shared(*args: Any, **named: Any) -> T:
        return from_first(functools.partial(function, *args, **named))

    return shared


def largest(number: int) -> int:
    """The largest number that any process passed; all processes must call it."""
    return _cluster.largest(number) if several() else number


def agree(settings: dict[str, Any]) -> None:
    """Checks that every process was started with the settings of process 0.

    Raises:
      ValueError: in every process, if one differs.
    """
    if several():
        _cluster.agree(settings)
