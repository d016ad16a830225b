"""Strict test session: 4 virtual CPU devices, strict promotion, quick compiling."""

import gc
import os
import pathlib
from importlib import metadata

# Compiling is most of the suite's time, so the compiler optimises nothing here, and the
# older of the two code generators of this jaxlib takes less time (others have no such
# choice). The tests of bits, the slow ones, the lane (Makefile) and every command that
# a test starts as a process run with what users get.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
    + (
        ""
        if "FEDSVP_USERS_COMPILER" in os.environ
        else " --xla_backend_optimization_level=0"
        + (
            " --xla_cpu_use_fusion_emitters=false"
            if metadata.version("jaxlib") == "0.10.2"
            else ""
        )
    )
)
# The workers, and the commands that a test starts, share what they compiled, and the
# next session finds it; `make clean` removes it. Even a program that compiles in
# milliseconds is read back faster.
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(
    pathlib.Path(__file__).parents[1] / ".cache" / "compiled"
)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import jax
import pytest

# A worker runs one file after another. The files that take longest, 20 CPU seconds or
# more from nothing, come first: so neither worker waits long for the other at the end.
LONGEST_FIRST = (
    "algorithm/test_federated_round.py",
    "models/test_registry.py",
    "run/test_sweep.py",
    "report/test_read.py",
    "federation/test_cohort_stream.py",
    "attacks/test_audit.py",
    "devices/test_lanes.py",
    "models/test_convolution.py",
    "mechanisms/test_contract.py",
    "experiments/attack/test_noise_scale_command.py",
    "experiments/attack/test_reconstruction_command.py",
    "experiments/attack/test_inversion_command.py",
    "experiments/test_train_command.py",
    "experiments/test_several_processes.py",
    "run/test_one_run.py",
    "run/test_stopping.py",
    "experiments/benchmark/test_communication.py",
    "experiments/benchmark/test_arithmetic.py",
    "report/test_repeat_command.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = pathlib.Path(__file__).parent
    ranks = {here / name: rank for rank, name in enumerate(LONGEST_FIRST)}
    assert all(path.is_file() for path in ranks)
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_collection_finish() -> None:
    """Lets the garbage collector pass over the libraries, and look seldom.

    Tracing makes many small objects, so by default it looks at all of them often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


def pytest_sessionfinish() -> None:
    """Spares the five passes over all objects that pytest makes at its end."""
    gc.freeze()


jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
