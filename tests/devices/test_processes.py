"""What one process says of devices and of others; every run shares data with itself.

tests/experiments/test_several_processes.py starts several.
"""

import jax
import pytest

from fedsvp_jax.devices import processes


def test_more_devices_than_jax_sees_are_refused() -> None:
    assert processes.devices(3) == jax.devices()[:3]
    with pytest.raises(ValueError, match="must be at most 4"):
        processes.devices(5)


def test_only_a_failed_collective_of_several_is_explained_by_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = ValueError("UNKNOWN: Gloo AllGather failed: Connection closed by peer")
    assert processes.explain(gone) is None  # there is but one
    monkeypatch.setattr(processes, "started", lambda: True)
    explained = processes.explain(gone)
    assert explained is not None and "another process stopped" in explained
    assert "--resume" in explained
    assert processes.explain(ValueError("epsilon must be > 0")) is None
