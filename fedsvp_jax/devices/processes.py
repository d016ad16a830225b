"""Several processes of one run: how they start, share data and stop.

Each runs the same command, holds some of the mesh's devices and computes every round.
Only process 0 reads checkpoints and writes files, and it sends the others what it
reads. In one process no service is started, and what shares data returns it unchanged.
"""

import faulthandler
import functools
import json
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import jax
import numpy as np
from jax.sharding import Sharding

T = TypeVar("T")

# After this time without a sign of life a process counts as dead; the others end.
HEARTBEAT_TIMEOUT_SECONDS = 30

_COLLECTIVE_FAILED = re.compile(
    r"(UNKNOWN|UNAVAILABLE|INTERNAL|ABORTED|CANCELLED|DEADLINE_EXCEEDED|"
    r"FAILED_PRECONDITION): "
)


def start(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Joins the other processes; must precede every other use of JAX.

    Process 0 listens at `coordinator_address`, HOST:PORT. Arguments that are None are
    asked of the cluster (SLURM, Open MPI, Kubernetes, TPU pod).

    Raises:
      ValueError: an argument is None and no cluster provides it, the processes cannot
        reach one another, or they see different numbers of devices.
    """
    # The service would catch SIGTERM, so that a run could save at a common step.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator_address,
            num_processes,
            process_id,
            heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT_SECONDS,
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(
            "the processes could not meet: coordinator_address, num_processes or "
            "process_id is wrong, or is not given and no cluster (SLURM, Open MPI, "
            f"Kubernetes, TPU pod) provides it: {error}"
        ) from error
    # When a heartbeat stops, JAX's runtime says in one line that another process died;
    # absl's dump of every thread would bury that line.
    faulthandler.disable()
    if jax.default_backend() == "cpu":
        # A program from the cache does not keep the order of its gathers, but gloo
        # matches them by order: 2 of 3 such runs aborted (JAX 0.10.2).
        jax.config.update("jax_enable_compilation_cache", False)
    if jax.device_count() != jax.process_count() * jax.local_device_count():
        raise ValueError(
            "every process must see the same number of devices; process "
            f"{jax.process_index()} of {jax.process_count()} sees "
            f"{jax.local_device_count()} of {jax.device_count()}"
        )


def started() -> bool:
    """Whether `start` joined other processes."""
    return jax.distributed.is_initialized()


def several() -> bool:
    """Whether there is more than one process."""
    return started() and jax.process_count() > 1


def is_first() -> bool:
    """Whether this process is the one that reads and writes files and prints."""
    return not started() or jax.process_index() == 0


def leave(status: int) -> NoReturn:
    """Ends this process without waiting for the others, which then end too.

    Process 0 waits two seconds first. It runs the service that the others need, and
    they may still have an error to print.
    """
    if is_first():
        time.sleep(2.0)
    sys.stdout.flush()
    os._exit(status)


def explain(error: BaseException) -> str | None:
    """The error as one sentence if it means that another process ended, else None."""
    text = str(error)
    if not started() or not _COLLECTIVE_FAILED.match(text):
        return None
    return (
        "another process stopped, so process "
        f"{jax.process_index()} of {jax.process_count()} stops as well; continue with "
        f"--resume, in any number of processes ({text})"
    )


def devices(count: int, name: str = "num_devices") -> list[jax.Device]:
    """`count` devices, which the setting `name` asks for, as many from each process.

    Raises:
      ValueError: there are fewer devices, or `count` is not a multiple of the number
        of processes.
    """
    everyone, number = jax.devices(), jax.process_count()
    if count > len(everyone):
        raise ValueError(
            f"{name} must be at most {len(everyone)}, the devices that JAX sees, got "
            f"{count}"
        )
    if count % number:
        raise ValueError(
            f"{name} must be a multiple of the {number} processes, got {count}"
        )
    of_each = [jax.local_devices(process_index=index) for index in range(number)]
    chosen = {device for local in of_each for device in local[: count // number]}
    return [device for device in everyone if device in chosen]


def place(tree: T, sharding: Sharding) -> T:
    """Lays arrays, which every process holds as a whole, out over all devices.

    Each process copies its own part of them; nothing is sent.
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
            return np.asarray(leaf) if leaf.is_fully_replicated else _gathered(leaf)
        return leaf

    # Every copy is started before the first is waited for.
    host: T = jax.device_get(jax.tree.map(get, tree))
    return host


def _gathered(leaf: Any) -> np.ndarray:
    """A divided array as a whole, or what each process has in a row."""
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))


def bytes_from_first(content: bytes) -> bytes:
    """Process 0's bytes, in every process; what the others pass does not count.

    Numbers are sent as bytes, since the broadcast is a sum, which would turn -0.0 into
    0.0.
    """
    if not several():
        return content
    from jax.experimental import multihost_utils

    def broadcast(part: bytes) -> bytes:
        numbers = np.frombuffer(part, np.uint8)
        return np.asarray(multihost_utils.broadcast_one_to_all(numbers)).tobytes()

    size = int.from_bytes(broadcast(len(content).to_bytes(8)))
    return broadcast(content[:size].ljust(size))


def from_first(make: Callable[[], T]) -> T:
    """The value of `make()` in process 0, which JSON can hold, in every process.

    Raises:
      ValueError, OSError: `make` raised it. The other processes raise a ValueError with
        the same message.
    """
    if not several():
        return make()
    outcome: dict[str, Any] = {}
    failure: ValueError | OSError | None = None
    if is_first():
        try:
            outcome = {"value": make()}
        except (ValueError, OSError) as error:
            outcome, failure = {"error": str(error)}, error
    outcome = json.loads(bytes_from_first(json.dumps(outcome).encode()))
    if "error" in outcome:
        raise failure or ValueError(outcome["error"])
    value: T = outcome["value"]
    return value


def by_first(function: Callable[..., T]) -> Callable[..., T]:
    """The function as process 0 calls it, with its result in every process."""

    @functools.wraps(function)
    def shared(*args: Any, **kwargs: Any) -> T:
        return from_first(functools.partial(function, *args, **kwargs))

    return shared


def largest(number: int) -> int:
    """The largest number that any process passed; all processes must call it."""
    return int(np.max(_gathered(np.int32(number)))) if several() else number


def agree(settings: dict[str, Any]) -> None:
    """Checks that every process was started with the settings of process 0.

    Raises:
      ValueError: in every process, if one differs: there with the first three
        differences, in the others with the process.
    """
    if not several():
        return
    ours = json.loads(json.dumps(settings))
    first = from_first(lambda: ours)
    differences = [
        f"{name} is {ours.get(name)!r} and is {first.get(name)!r} there"
        for name in sorted({*ours, *first})
        if ours.get(name) != first.get(name)
    ]
    differing = np.flatnonzero(_gathered(np.int32(len(differences))))
    if differences:
        raise ValueError(
            f"process {jax.process_index()} was started otherwise than process 0: "
            + "; ".join(differences[:3])
        )
    if len(differing):
        raise ValueError(
            f"process {differing[0]} was started otherwise than process 0; its output "
            "names the difference"
        )
