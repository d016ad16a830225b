"""Several processes that run one program: how they meet, share and stop.

Each process runs the same command and holds some of the mesh's devices. All of them
compute every round; process 0 alone reads checkpoints and writes files, and what it
finds there it tells the others. Without `start` there is one process, no service is
started, and every function here is the identity.
"""

import faulthandler
import json
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Sharding

T = TypeVar("T")

# A process that says nothing for so long counts as dead, and the others end.
HEARTBEAT_TIMEOUT_SECONDS = 30

_joined = False

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

    Args:
      coordinator_address: HOST:PORT of process 0, where it listens.
      num_processes: how many there are.
      process_id: this one, from 0.
        What is None is asked of the cluster (SLURM, Open MPI, Kubernetes, TPU pods).

    Raises:
      ValueError: something is None and no cluster tells it, or no process
        could be met.
    """
    global _joined
    # The service would swallow SIGTERM, for a run to save at a common step.
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
            "the processes could not meet: no cluster (SLURM, Open MPI, Kubernetes, "
            "TPU pod) tells what coordinator_address, num_processes and process_id "
            f"leave open, or they are wrong: {error}"
        ) from error
    _joined = True
    # absl's dump of every thread would bury the line in which JAX's runtime says that
    # another process died, when its heartbeat and no collective is what tells.
    faulthandler.disable()
    if jax.default_backend() == "cpu":
        # A program from the cache does not keep the order of its gathers, and
        # gloo matches them by order: it aborted in 2 of 3 such runs (JAX 0.10.2).
        jax.config.update("jax_enable_compilation_cache", False)
    if jax.device_count() != jax.process_count() * jax.local_device_count():
        raise ValueError(
            "every process must see the same number of devices, process "
            f"{jax.process_index()} of {jax.process_count()} sees "
            f"{jax.local_device_count()} of {jax.device_count()}"
        )


def started() -> bool:
    """Whether `start` joined the others."""
    return _joined


def leave(status: int) -> NoReturn:
    """Ends this process without waiting for the others, which then end too.

    Process 0, whose service the others talk to, goes last: they may have an error
    of their own to print.
    """
    if is_first():
        time.sleep(2.0)
    sys.stdout.flush()
    os._exit(status)


def several() -> bool:
    """Whether there is more than this process."""
    return jax.process_count() > 1


def is_first() -> bool:
    """Whether this process is the one that reads and writes files and prints."""
    return jax.process_index() == 0


def devices(count: int) -> list[jax.Device]:
    """`count` devices, equally many of each process.

    Raises:
      ValueError: there are fewer, or they cannot be taken equally.
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
    """Arrays that every process holds whole, laid out over all devices.

    Each process copies its own part; nothing is sent.
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
    """The arrays whole, as numpy, in every process; all must call it."""

    def get(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            if not leaf.is_fully_replicated:
                return multihost_utils.process_allgather(leaf, tiled=True)
            return np.asarray(leaf)
        return jax.device_get(leaf)

    return jax.tree.map(get, tree)


def arrays_from_first(tree: T) -> T:
    """Process 0's arrays, in every process; the others pass any of the same shapes.

    They travel as bytes: the broadcast is a sum, which would turn -0.0 into 0.0.
    """
    if not several():
        return tree
    leaves, structure = jax.tree.flatten(tree)
    leaves = [np.asarray(leaf) for leaf in leaves]
    sent = np.concatenate([np.frombuffer(leaf.tobytes(), np.uint8) for leaf in leaves])
    content = np.asarray(multihost_utils.broadcast_one_to_all(sent)).tobytes()
    found, start = [], 0
    for leaf in leaves:
        part = np.frombuffer(content, leaf.dtype, leaf.size, start)
        found.append(part.reshape(leaf.shape).copy())
        start += leaf.nbytes
    return jax.tree.unflatten(structure, found)


def from_first(make: Callable[[], T]) -> T:
    """What `make()` returns in process 0, in every process; it must be plain JSON.

    `make` runs in process 0 alone. Where it raises a ValueError or an OSError, every
    process does: the others raise ValueError with the same words.
    """
    if not several():
        return make()
    told: dict[str, Any] = {}
    failure: ValueError | OSError | None = None
    if is_first():
        try:
            told = {"value": make()}
        except (ValueError, OSError) as error:
            told, failure = {"error": str(error)}, error
    text = json.dumps(told).encode()
    size = int(arrays_from_first(np.asarray([len(text)], np.int64))[0])
    padded = np.frombuffer(text[:size].ljust(size), np.uint8)
    told = json.loads(arrays_from_first(padded).tobytes())
    if failure is not None:
        raise failure
    if "error" in told:
        raise ValueError(told["error"])
    return told["value"]


def largest(number: int) -> int:
    """The largest of the processes' numbers; all must call it."""
    if not several():
        return number
    return int(np.max(multihost_utils.process_allgather(np.int32(number))))


def agree(settings: dict[str, Any]) -> None:
    """Ends every process when one was started otherwise than process 0.

    Raises:
      ValueError: in the process that differs, naming the first differences; in
        the others, naming the process.
    """
    if not several():
        return
    own = json.loads(json.dumps(settings))
    first = from_first(lambda: own)
    differences = [
        f"{name} is {own.get(name)!r} and is {first.get(name)!r} there"
        for name in sorted({*own, *first})
        if own.get(name) != first.get(name)
    ]
    verdicts = multihost_utils.process_allgather(np.int32(len(differences)))
    if differences:
        raise ValueError(
            f"process {jax.process_index()} was started otherwise than process 0: "
            + "; ".join(differences[:3])
        )
    others = np.flatnonzero(np.asarray(verdicts).reshape(-1))
    if len(others):
        raise ValueError(
            f"process {others[0]} was started otherwise than process 0; what it "
            "printed names the difference"
        )


def explain(error: BaseException) -> str | None:
    """One sentence when a collective failed since another process is gone, or None."""
    text = str(error)
    if not started() or not _COLLECTIVE_FAILED.match(text):
        return None
    return (
        "another process stopped, and so does process "
        f"{jax.process_index()} of {jax.process_count()}; go on with --resume, in any "
        f"number of processes ({text})"
    )
