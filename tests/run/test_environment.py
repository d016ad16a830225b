"""What a run records about the machine and its software."""

import os
import pathlib
import platform

import pytest

from fedsvp_jax.devices import cpu
from fedsvp_jax.run import environment
from fedsvp_jax.run.folder import RunFolder


@pytest.mark.hole
def test_a_run_tells_its_threads_and_is_not_resumed_with_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convolutions follow the number of threads, and so do the bits of a run."""
    monkeypatch.delenv("NPROC", raising=False)
    assert cpu.threads() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("NPROC", "3")
    told = environment.environment()
    assert told["cpu_threads"] == 3
    assert told["cpu_instructions"].startswith(platform.machine())
    folder = RunFolder(tmp_path / "run")
    folder.start(told, resume=False)
    folder.start(environment.environment(), resume=True)
    monkeypatch.setenv("NPROC", "4")
    with pytest.raises(ValueError, match="cpu_threads is 4 and was 3"):
        folder.start(environment.environment(), resume=True)
