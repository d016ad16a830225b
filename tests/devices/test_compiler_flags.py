"""The compiler's flags: set before JAX starts, unless the user's own say otherwise."""

import os
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import start

from fedsvp_jax.devices import compiler_flags

NAME = "xla_cpu_experimental_ynn_fusion_type"
SAFE = f"--{NAME}=individual_dot"
WAIT = "--xla_cpu_collective_call_{}_timeout_seconds={}"
LONG = " ".join(WAIT.format(what, 10**8) for what in ("warn_stuck", "terminate"))
SHORT = " ".join(WAIT.format(what, 9) for what in ("warn_stuck", "terminate"))


def test_products_under_a_sum_are_right_with_the_safe_flags() -> None:
    """Both were wrong: row sums of (x C) * x came out as NaN, and the last norm."""

    def constant(x: jax.Array) -> jax.Array:
        return jnp.sum((x @ jnp.full((300, 300), 0.37)) * x, 1)

    def norms(rows: jax.Array) -> jax.Array:
        return jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2))(rows)

    rows = np.zeros((32_769, 3), np.float32)
    rows[:, 0] = np.arange(32_769)
    found = jax.jit(constant)(jnp.ones((300, 300)))
    np.testing.assert_allclose(found, 0.37 * 300**2, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(norms)(rows), rows[:, 0] ** 2, rtol=1e-5)
    compiler_flags.check_arithmetic()


@pytest.mark.skipif(
    metadata.version("jaxlib") not in compiler_flags.TRIED_JAXLIBS,
    reason="not known whether this jaxlib computes wrongly without flags",
)
def test_an_empty_xla_flags_ends_the_command_in_one_sentence(tmp_path) -> None:
    line = ("experiments.train", "--dataset=digits", f"--output_dir={tmp_path}/a")
    with start(*line, XLA_FLAGS="") as process:
        _, told = process.communicate(timeout=600)
    assert process.returncode == 2, told
    assert told.startswith("error: jaxlib") and told.count("\n") == 1
    assert SAFE in told and "(now it is '')" in told
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("before", "platforms", "after", "jaxlib", "started"),
    [
        (None, None, f"{SAFE} {LONG}", "0.10.2", False),
        ("--x_to=a --x", "cpu", f"--x_to=a --x {SAFE} {LONG}", "0.10.2", False),
        (f"--{NAME}=dot", "cuda,cpu", f"--{NAME}=dot {LONG}", "0.10.2", False),
        (SHORT, "cpu", f"{SHORT} {SAFE}", "0.10.2", False),
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
        monkeypatch.setattr(compiler_flags, "jax_has_started", lambda: False)
    for name, value in (("XLA_FLAGS", before), ("JAX_PLATFORMS", platforms)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    compiler_flags.set_safe_flags()
    assert os.environ.get("XLA_FLAGS") == after


def test_flags_that_change_no_number_are_not_recorded(monkeypatch) -> None:
    monkeypatch.setenv(
        "XLA_FLAGS",
        f"--xla_force_host_platform_device_count=4 --xla_b {SAFE} {LONG} "
        "--xla_dump_to=a",
    )
    assert compiler_flags.flags_in_force() == {NAME: "individual_dot", "xla_b": ""}
