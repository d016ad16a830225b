"""What the numbers were computed with."""

import sys
from importlib import metadata
from typing import Any

import jax

from fedsvp_jax.run import checkpoint

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "dp-accounting")


def versions() -> dict[str, str]:
    """What the numbers were computed with."""
    found = {name: metadata.version(name) for name in _PACKAGES}
    return {"python": ".".join(map(str, sys.version_info[:3])), **found}


def environment() -> dict[str, Any]:
    """Versions and device kind: the same bits are promised on the same of these."""
    return {
        "versions": versions(),
        "state_version": checkpoint.STATE_VERSION,
        "device_kind": jax.devices()[0].device_kind,
    }
