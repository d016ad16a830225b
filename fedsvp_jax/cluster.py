"""Several processes that run one program: how they start, share data and stop.

A command that is told so calls `start`; `devices.processes` then shares data by the
functions below.
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

from fedsvp_jax.devices import processes

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

    Args:
      coordinator_address: HOST:PORT at which process 0 listens.
      num_processes: number of processes.
      process_id: index of this process, from 0.
        Arguments that are None are asked of the cluster (SLURM, Open MPI, Kubernetes,
        TPU pod).

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
    processes.joined(sys.modules[__name__])
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


def leave(status: int) -> NoReturn:
    """Ends this process without waiting for the others, which then end too.

    Process 0 waits two seconds first. It runs the service that the others need, and
    they may still have an error to print.

    Args:
      status: exit status of this process.
    """
    if processes.is_first():
        time.sleep(2.0)
    sys.stdout.flush()
    os._exit(status)


def gathered(leaf: jax.Array) -> Any:
    """The whole array as numpy in every process."""
    return multihost_utils.process_allgather(leaf, tiled=True)


def arrays_from_first(tree: T) -> T:
    """As `processes.arrays_from_first`.

    They are sent as bytes, since the broadcast is a sum, which would turn -0.0 into
    0.0.
    """
    leaves, structure = jax.tree.flatten(tree)
    leaves = [np.asarray(leaf) for leaf in leaves]
    sent = np.concatenate([np.frombuffer(leaf.tobytes(), np.uint8) for leaf in leaves])
    content = np.asarray(multihost_utils.broadcast_one_to_all(sent)).tobytes()
    received, start = [], 0
    for leaf in leaves:
        part = np.frombuffer(content, leaf.dtype, leaf.size, start)
        received.append(part.reshape(leaf.shape).copy())
        start += leaf.nbytes
    return jax.tree.unflatten(structure, received)


def from_first(make: Callable[[], T]) -> T:
    """As `processes.from_first`."""
    outcome: dict[str, Any] = {}
    failure: ValueError | OSError | None = None
    if processes.is_first():
        try:
            outcome = {"value": make()}
        except (ValueError, OSError) as error:
            outcome, failure = {"error": str(error)}, error
    text = json.dumps(outcome).encode()
    size = int(arrays_from_first(np.asarray([len(text)], np.int64))[0])
    padded = np.frombuffer(text[:size].ljust(size), np.uint8)
    outcome = json.loads(arrays_from_first(padded).tobytes())
    if failure is not None:
        raise failure
    if "error" in outcome:
        raise ValueError(outcome["error"])
    return outcome["value"]


def largest(number: int) -> int:
    """As `processes.largest`."""
    return int(np.max(multihost_utils.process_allgather(np.int32(number))))


def agree(settings: dict[str, Any]) -> None:
    """As `processes.agree`.

    In the process that differs the message names the first three differences, in the
    others the process.
    """
    here = json.loads(json.dumps(settings))
    first = from_first(lambda: here)
    differences = [
        f"{name} is {here.get(name)!r} and is {first.get(name)!r} there"
        for name in sorted({*here, *first})
        if here.get(name) != first.get(name)
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
            f"process {others[0]} was started otherwise than process 0; its output "
            "names the difference"
        )


def explain(error: BaseException) -> str | None:
    """The error as one sentence if it means that another process ended, else None."""
    text = str(error)
    if not processes.started() or not _COLLECTIVE_FAILED.match(text):
        return None
    return (
        "another process stopped, so process "
        f"{jax.process_index()} of {jax.process_count()} stops as well; continue with "
        f"--resume, in any number of processes ({text})"
    )
