"""Pytest plugin of the mutation run: what mutmut cannot know about JAX.

mutmut notes once which test calls which function, and runs only these tests for a
mutant of that function. JAX calls a function once and then its compiled program, so
everything compiled is forgotten before each test while mutmut takes notes. Each mutant
runs in a fork of a process that has imported the tests; threads do not survive a fork,
so no test module may start a JAX backend when it is imported.
"""

import sys

import jax
import pytest
from jax._src import xla_bridge
from mutmut.mutation.trampoline import get_mutant_under_test
from mutmut.state import state


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quickest test first: most mutants fail in any test that reaches them."""
    items.sort(key=lambda item: state().duration_by_test.get(item.nodeid, 0.0))


def pytest_collection_finish() -> None:
    if xla_bridge.backends_are_initialized():
        raise pytest.UsageError("a test module computes with JAX when it is imported")


def pytest_runtest_setup() -> None:
    if get_mutant_under_test() != "stats":
        return
    jax.clear_caches()
    if "small_runs" in sys.modules:
        sys.modules["small_runs"]._compiled.clear()
