"""What the numbers were computed with."""

import sys
from importlib import metadata
from typing import Any

import jax

from fedsvp_jax.devices import compiler_flags
from fedsvp_jax.run import checkpoint

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "dp-accounting")


def versions() -> dict[str, str]:
    """What the numbers were computed with."""
    found = {name: metadata.version(name) for name in _PACKAGES}
    return {"python": ".".join(map(str, sys.version_info[:3])), **found}


def environment() -> dict[str, Any]:
    """Versions, compiler flags, device kind: equal ones are promised equal bits.

    Raises:
      ValueError: the device computes wrong numbers (`compiler_flags`).
    """
    compiler_flags.check_arithmetic()
    return {
        "versions": versions(),
        "state_version": checkpoint.STATE_VERSION,
        "device_kind": jax.devices()[0].device_kind,
        "xla_flags": compiler_flags.flags_in_force(),
    }
