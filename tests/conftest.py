"""Strict test session: 4 virtual CPU devices, strict promotion, quick compiling."""

import gc
import json
import os
import pathlib
import sys
import tempfile
from collections import Counter
from importlib import metadata
from typing import Any

# Compiling is most of the suite's time, so the compiler optimises nothing here, keeps
# no tracebacks and does not divide its work among threads; the older of the two code
# generators of this jaxlib takes less time (others have no such choice). So do the
# commands that tests start; the tests of bits, the slow ones and the lane (Makefile)
# run with what users get.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
    + (
        ""
        if "FEDSVP_USERS_COMPILER" in os.environ
        else " --xla_backend_optimization_level=0"
        + (
            " --xla_cpu_use_fusion_emitters=false"
            " --xla_cpu_parallel_codegen_split_count=1"
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
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"

import hypothesis
import jax
import pytest

# Where `fedsvp site` lists the logs of each table, of this session alone.
_STATE = tempfile.TemporaryDirectory()
os.environ["XDG_STATE_HOME"] = _STATE.name

# A worker runs one file after another. Those that took longest come first, so neither
# worker waits long for the other at the end. `make durations` records them.
DURATIONS = pathlib.Path(__file__).with_name("durations.json")
# Folders and files of `make test-lab`; of `data` those below it.
LAB = (
    "attacks",
    "check",
    "data/datasets",
    "data/store",
    "data/tables",
    "deploy",
    "docs",
    "experiments",
    "influence",
    "report",
    "run/test_faults",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = pathlib.Path(__file__).parent
    seconds = json.loads(DURATIONS.read_text())
    for item in items:
        if str(item.path.relative_to(here)).startswith(LAB):
            item.add_marker("lab")
    items.sort(key=lambda item: -seconds.get(str(item.path.relative_to(here)), 0))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """With FEDSVP_DURATIONS, notes the files that took 5 seconds or more."""
    if "FEDSVP_DURATIONS" not in os.environ:
        return
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.location[0].removeprefix("tests/")] += report.duration
    longest = {name: round(s) for name, s in sorted(seconds.items()) if s >= 5}
    DURATIONS.write_text(json.dumps(longest, indent=1) + "\n")


@pytest.fixture(autouse=True)
def _no_program_of_another_test() -> None:
    """A test that replaces a function compiles its own rounds, and leaves none."""
    trainer = sys.modules.get("fedsvp_jax.run.trainer")
    if trainer is not None:
        trainer._jitted.cache_clear()


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


# A busy machine fails no example.
hypothesis.settings.register_profile("busy", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("busy")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
