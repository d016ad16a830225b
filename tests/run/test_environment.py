"""What a run records about the machine and its software."""

from fedsvp_jax.devices import compiler_flags
from fedsvp_jax.run import environment


def test_the_flags_of_the_compiler_are_recorded(monkeypatch) -> None:
    monkeypatch.setattr(compiler_flags, "flags_in_force", lambda: {"xla_a": "1"})
    assert environment.environment()["xla_flags"] == {"xla_a": "1"}


def test_a_device_that_computes_wrongly_is_found_before_anything_is_written(
    monkeypatch,
) -> None:
    checks = []
    monkeypatch.setattr(compiler_flags, "check_arithmetic", lambda: checks.append(1))
    environment.environment()
    assert checks
