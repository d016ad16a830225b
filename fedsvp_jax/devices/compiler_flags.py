"""XLA's flags: those without which a CPU computes wrong numbers, and the check for it.

XLA:CPU may compute a matrix product together with the sum over it as one kernel, and
some of these kernels are wrong: silently, in every jaxlib that this package is tested
with. `SAFE_FLAGS` turns the joint kernels off. BUILD_NOTES.md ("Right numbers on a
CPU") has the programs that are wrong, the cause as far as it is known, and what the
flags cost.

The flags are in the environment variable XLA_FLAGS, which XLA reads once, when the
first device is asked for. `import fedsvp_jax` therefore sets them.
"""

import os
import sys
from functools import cache, partial
from importlib import metadata
from types import MappingProxyType

# jaxlib -> flag -> value. A jaxlib refuses to start with a flag that it does not know,
# so one that was not tried is not in the table, and `check_arithmetic` judges it.
_SEPARATE_PRODUCTS = {"xla_cpu_experimental_ynn_fusion_type": "individual_dot"}
SAFE_FLAGS = MappingProxyType(
    dict.fromkeys(("0.10.2", "0.11.2", "0.12.0.1"), _SEPARATE_PRODUCTS)
)

# Flags of the user's that change no number, and so are not recorded.
_WITHOUT_INFLUENCE = ("xla_force_host_platform_device_count", "xla_dump_")


def set_safe_flags() -> None:
    """Adds this jaxlib's safe flags to XLA_FLAGS, for this process and its children.

    The user's flags win: one that XLA_FLAGS names keeps its value, and an XLA_FLAGS
    that is set but empty gets no flag. Nothing happens where JAX_PLATFORMS leaves out
    the CPU, or where JAX has started already and would not read the flags.
    """
    platforms = os.environ.get("JAX_PLATFORMS", "")
    user_flags = os.environ.get("XLA_FLAGS")
    if user_flags == "" or (platforms and "cpu" not in platforms) or _jax_has_started():
        return
    words = (user_flags or "").split()
    user_names = _flags(words)
    safe = SAFE_FLAGS.get(metadata.version("jaxlib"), {})
    words += [
        f"--{name}={value}" for name, value in safe.items() if name not in user_names
    ]
    if words:
        os.environ["XLA_FLAGS"] = " ".join(words)


def flags_in_force() -> dict[str, str]:
    """The flags of XLA_FLAGS that may change numbers: name -> value.

    A flag without a value has the value "".
    """
    flags = _flags(os.environ.get("XLA_FLAGS", "").split())
    names = (name for name in flags if not name.startswith(_WITHOUT_INFLUENCE))
    return {name: flags[name] for name in sorted(names)}


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
    flags = " ".join(f"--{name}={value}" for name, value in _SEPARATE_PRODUCTS.items())
    raise ValueError(
        f"jaxlib {jaxlib} computes sums of matrix products wrongly on this CPU; start "
        f"Python with XLA_FLAGS={flags} in the environment ("
        + ("it is not set now)" if now is None else f"now it is {now!r})")
    )


def _flags(words: list[str]) -> dict[str, str]:
    """`["--a=b", "--c"]` -> {"a": "b", "c": ""}; the last of two counts, as in XLA."""
    pairs = (word.lstrip("-").partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def _jax_has_started() -> bool:
    """Whether JAX has made its devices, after which XLA_FLAGS is not read any more."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bridge.backends_are_initialized()
