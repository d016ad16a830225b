"""XLA's flags: those without which a CPU computes wrongly or stops, and a check.

XLA:CPU may compute a matrix product together with the sum over it as one kernel, and
some of these kernels are wrong: silently, in every jaxlib that this package is tested
with. The safe flag turns the joint kernels off. BUILD_NOTES.md ("Right numbers on a
CPU") has the programs that are wrong, the cause as far as it is known, and what the
flags cost.

The flags are in the environment variable XLA_FLAGS, which XLA reads once, when the
first device is asked for. `import fedsvp_jax` therefore sets them.
"""

import os
import sys
from functools import cache, partial
from importlib import metadata

_NAME = "xla_cpu_experimental_ynn_fusion_type"
_SAFE = f"--{_NAME}=individual_dot"
# A CPU's devices wait for one another. After 20 s XLA calls the other one stuck, and
# after 60 it ends the process; a client's training may take longer than another's.
_WAIT = "xla_cpu_collective_call_"
_FLAGS = (
    _SAFE,
    f"--{_WAIT}warn_stuck_timeout_seconds=100000000",
    f"--{_WAIT}terminate_timeout_seconds=100000000",
)
# A jaxlib refuses to start with a flag that it does not know, so one that was not tried
# gets none, and `check_arithmetic` judges it.
TRIED_JAXLIBS = ("0.10.2", "0.11.2", "0.12.0.1")

# Flags of the user's that change no number, and so are not recorded.
_WITHOUT_INFLUENCE = ("xla_force_host_platform_device_count", _WAIT, "xla_dump_")


def set_safe_flags() -> None:
    """Adds these flags to XLA_FLAGS, for this process and its children.

    The user's flags win: each keeps a value that XLA_FLAGS gives it, and an XLA_FLAGS
    that is set but empty gets no flag. Nothing happens where JAX_PLATFORMS
    leaves out the CPU, or where JAX has started already and would not read the flags.
    """
    user_flags = os.environ.get("XLA_FLAGS", " ")
    if (
        "cpu" in (os.environ.get("JAX_PLATFORMS") or "cpu")
        and metadata.version("jaxlib") in TRIED_JAXLIBS
        and user_flags
        and not jax_has_started()
    ):
        new = [flag for flag in _FLAGS if flag.partition("=")[0] not in user_flags]
        os.environ["XLA_FLAGS"] = " ".join([user_flags, *new]).strip()


def flags_in_force() -> dict[str, str]:
    """The flags of XLA_FLAGS that may change numbers: name -> value.

    A flag without a value has the value "".
    """
    words = os.environ.get("XLA_FLAGS", "").split()
    flags = (word.lstrip("-").partition("=") for word in words)
    values = {name: value for name, _, value in flags}  # the last of two, as in XLA
    return {
        name: value
        for name, value in sorted(values.items())
        if not name.startswith(_WITHOUT_INFLUENCE)
    }


@cache
def check_arithmetic() -> None:
    """Computes the programs that are known to be wrong without the safe flags.

    It does so once per process, and only where the CPU computes.

    Raises:
      ValueError: a result is wrong; the message says how to start Python.
    """
    # Here, since they take long to import and `set_safe_flags` runs at every import.
    import jax
    import jax.numpy as jnp
    import numpy as np

    if jax.default_backend() != "cpu":
        return
    size, num_rows = 64, 32_769  # the least that are wrong

    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def programs(x: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        constant = jnp.full((size, size), 0.5, jnp.float32)
        turn = jnp.eye(3, dtype=jnp.float32)
        return (
            jnp.sum((x @ constant) * x, axis=1),
            jax.vmap(lambda row: jnp.sum((turn @ row) ** 2))(rows),
        )

    rows = np.zeros((num_rows, 3), np.float32)
    rows[:, 0] = np.arange(num_rows)
    results = programs(np.ones((size, size), np.float32), rows)
    right = (np.full(size, 0.5 * size**2), np.arange(num_rows) ** 2.0)
    if all(map(np.allclose, results, right)):
        return
    jaxlib, now = metadata.version("jaxlib"), os.environ.get("XLA_FLAGS")
    raise ValueError(
        f"jaxlib {jaxlib} computes sums of matrix products wrongly on this CPU; start "
        f"Python with XLA_FLAGS={_SAFE} in the environment ("
        + ("it is not set now)" if now is None else f"now it is {now!r})")
    )


def jax_has_started() -> bool:
    """Whether JAX has made its devices, after which XLA_FLAGS is not read any more."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bridge.backends_are_initialized()
