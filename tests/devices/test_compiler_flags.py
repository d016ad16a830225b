"""The compiler's flags: set before JAX starts, unless the user's own say otherwise."""

import os
import subprocess
import sys
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import ROOT, environment

from fedsvp_jax.devices import compiler_flags

NAME = "xla_cpu_experimental_ynn_fusion_type"
SAFE = f"--{NAME}=individual_dot"
JAXLIB = metadata.version("jaxlib")

known_to_be_wrong = pytest.mark.skipif(
    JAXLIB not in compiler_flags.SAFE_FLAGS,
    reason="not known whether this jaxlib computes wrongly without flags",
)


def constant_factor(x: jax.Array) -> jax.Array:
    """Row sums of (x C) * x with a constant C, which came out as NaN."""
    return jnp.sum((x @ jnp.full((300, 300), 0.37, jnp.float32)) * x, 1)


def squared_norms(rows: jax.Array) -> jax.Array:
    """Squared norms of many short rows, of which the last was wrong."""
    turn = jnp.eye(3, dtype=jnp.float32)
    return jax.vmap(lambda row: jnp.sum((turn @ row) ** 2))(rows)


def test_products_under_a_sum_are_right_with_the_safe_flags() -> None:
    x = np.asarray(jax.random.normal(jax.random.key(0), (300, 300)), np.float64)
    rows = np.zeros((32_769, 3), np.float32)
    rows[:, 0] = np.arange(32_769)
    result = jax.jit(constant_factor)(x.astype(np.float32))
    np.testing.assert_allclose(result, ((x * 0.37).sum(1) * x.sum(1)), atol=0.01)
    np.testing.assert_allclose(jax.jit(squared_norms)(rows), rows[:, 0] ** 2)
    compiler_flags.check_arithmetic()


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python in whose environment XLA_FLAGS is only what `variables` says."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={k: v for k, v in environment().items() if k != "XLA_FLAGS"} | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


@known_to_be_wrong
def test_jax_that_started_without_the_flags_is_refused() -> None:
    done = python(
        "-c",
        """
import jax, jax.numpy as jnp, numpy as np

constant = lambda x: jnp.sum((x @ jnp.full((300, 300), 0.37)) * x, 1)
rows = np.zeros((32_769, 3), np.float32)
rows[:, 0] = np.arange(32_769)
norms = lambda rows: jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2))(rows)
print(np.isclose(jax.jit(constant)(jnp.ones((300, 300))), 0.37 * 300**2).all())
print(np.isclose(jax.jit(norms)(rows), rows[:, 0] ** 2).all())

from fedsvp_jax.devices import compiler_flags

print(compiler_flags.flags_in_force())
try:
    compiler_flags.check_arithmetic()
except ValueError as error:
    print(error)
""",
    )
    first, second, flags, refusal = done.stdout.splitlines()
    assert first == "False" and flags == "{}", done
    # Mended in 0.12.
    assert second == str(not JAXLIB.startswith("0.10.")), done
    assert SAFE in refusal and "(it is not set now)" in refusal


@known_to_be_wrong
def test_an_empty_xla_flags_ends_the_command_in_one_sentence(tmp_path) -> None:
    line = ("-m", "experiments.train", "--dataset=digits", f"--output_dir={tmp_path}/a")
    done = python(*line, XLA_FLAGS="")
    assert done.returncode == 2, done
    assert done.stderr.startswith("error: jaxlib") and done.stderr.count("\n") == 1
    assert SAFE in done.stderr and "(now it is '')" in done.stderr
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("before", "platforms", "after"),
    [
        (None, None, SAFE),
        ("--xla_dump_to=a  --xla_b", "cpu", f"--xla_dump_to=a --xla_b {SAFE}"),
        (f"--{NAME}=dot", "cuda,cpu", f"--{NAME}=dot"),
        ("", None, ""),
        (None, "cuda", None),
    ],
)
def test_the_users_flags_win(monkeypatch, before, platforms, after) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "0.10.2")
    monkeypatch.setattr(compiler_flags, "_jax_has_started", lambda: False)
    for name, value in (("XLA_FLAGS", before), ("JAX_PLATFORMS", platforms)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    compiler_flags.set_safe_flags()
    assert os.environ.get("XLA_FLAGS") == after


def test_a_jaxlib_that_was_not_tried_gets_no_flags(monkeypatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "0.99.0")
    monkeypatch.setattr(compiler_flags, "_jax_has_started", lambda: False)
    monkeypatch.delenv("XLA_FLAGS")
    compiler_flags.set_safe_flags()
    assert "XLA_FLAGS" not in os.environ


def test_flags_are_not_changed_once_jax_has_started(monkeypatch) -> None:
    jax.devices()
    monkeypatch.delenv("XLA_FLAGS")
    compiler_flags.set_safe_flags()
    assert "XLA_FLAGS" not in os.environ


def test_flags_that_change_no_number_are_not_recorded(monkeypatch) -> None:
    monkeypatch.setenv(
        "XLA_FLAGS",
        f"--xla_force_host_platform_device_count=4 --xla_b {SAFE} --xla_dump_to=a",
    )
    assert compiler_flags.flags_in_force() == {NAME: "individual_dot", "xla_b": ""}
