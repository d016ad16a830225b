"""The environment in which a run's numbers were computed."""

import platform
from importlib import metadata

import jax

from fedsvp_jax.core.files import Record
from fedsvp_jax.devices import compiler_flags, cpu

from . import checkpoint

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "dp-accounting")
# JAX's settings that numbers follow. Keys name their implementation (`prng`), so that
# jax_default_prng_impl is none of them.
_JAX = (
    "jax_threefry_partitionable",
    "jax_random_seed_offset",
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_softmax_custom_jvp",
)


def environment() -> Record:
    """Versions, JAX's settings, flags, device: equal ones are promised equal bits.

    A run is not resumed under others (`RunFolder.start`). Of a CPU the number of
    threads (NPROC sets it) and the instruction set count: convolutions follow them.

    Raises:
      ValueError: the device computes wrong numbers (`compiler_flags`).
    """
    compiler_flags.check_arithmetic()
    on_cpu = jax.default_backend() == "cpu"
    packages = {name: metadata.version(name) for name in _PACKAGES}
    return {
        "versions": {"python": platform.python_version(), **packages},
        "state_version": checkpoint.STATE_VERSION,
        "device_kind": jax.devices()[0].device_kind,
        "cpu_threads": cpu.threads() if on_cpu else None,
        "cpu_instructions": cpu.instruction_set() if on_cpu else None,
        "xla_flags": compiler_flags.flags_in_force(),
        "jax_config": {name: getattr(jax.config, name) for name in _JAX},
    }
