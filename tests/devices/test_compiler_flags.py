"""The compiler's flags: set before JAX starts, unless the user's own say otherwise."""

import os
import subprocess
import sys
from importlib import metadata

import jax
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
# Row sums of (x C) * x with a constant C, which came out as NaN, and squared norms of
# many short rows, of which the last was wrong.
PRODUCTS = """
import jax, jax.numpy as jnp, numpy as np

constant = lambda x: jnp.sum((x @ jnp.full((300, 300), 0.37)) * x, 1)
rows = np.zeros((32_769, 3), np.float32)
rows[:, 0] = np.arange(32_769)
norms = lambda rows: jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2))(rows)
right = [
    np.isclose(jax.jit(constant)(jnp.ones((300, 300))), 0.37 * 300**2).all(),
    np.isclose(jax.jit(norms)(rows), rows[:, 0] ** 2).all(),
]
"""
CHECKED = """
from fedsvp_jax.devices import compiler_flags

print(*right, compiler_flags.flags_in_force())
try:
    compiler_flags.check_arithmetic()
except ValueError as error:
    print(error)
"""


def test_products_under_a_sum_are_right_with_the_safe_flags() -> None:
    found: dict[str, list[bool]] = {}
    exec(PRODUCTS, found)
    assert all(found["right"])
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
    done = python("-c", PRODUCTS + CHECKED)
    found, refusal = done.stdout.splitlines()
    mended = not JAXLIB.startswith("0.10.")  # the second, in 0.12
    assert found == f"False {mended} {{}}", done
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
    ("before", "platforms", "after", "jaxlib", "started"),
    [
        (None, None, SAFE, "0.10.2", False),
        ("--xla_dump_to=a  --x", "cpu", f"--xla_dump_to=a --x {SAFE}", "0.10.2", False),
        (f"--{NAME}=dot", "cuda,cpu", f"--{NAME}=dot", "0.10.2", False),
        ("", None, "", "0.10.2", False),
        (None, "cuda", None, "0.10.2", False),
        (None, None, None, "0.99.0", False),  # was not tried
        (None, None, None, "0.10.2", True),
    ],
)
def test_the_users_flags_win_and_nothing_changes_once_jax_has_started(
    monkeypatch, before, platforms, after, jaxlib, started
) -> None:
    jax.devices()
    monkeypatch.setattr(metadata, "version", lambda _: jaxlib)
    if not started:
        monkeypatch.setattr(compiler_flags, "_jax_has_started", lambda: False)
    for name, value in (("XLA_FLAGS", before), ("JAX_PLATFORMS", platforms)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    compiler_flags.set_safe_flags()
    assert os.environ.get("XLA_FLAGS") == after


def test_flags_that_change_no_number_are_not_recorded(monkeypatch) -> None:
    monkeypatch.setenv(
        "XLA_FLAGS",
        f"--xla_force_host_platform_device_count=4 --xla_b {SAFE} --xla_dump_to=a",
    )
    assert compiler_flags.flags_in_force() == {NAME: "individual_dot", "xla_b": ""}
