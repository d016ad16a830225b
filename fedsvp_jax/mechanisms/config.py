"""What a mechanism is told: one dataclass for all of them."""

from typing import Any

import flax.struct
import jax
import numpy as np

from fedsvp_jax.structs import Array

SENSITIVITIES = ("paper", "weight_clip", "update_clip", "per_example")
RELATIONS = ("replace_one", "add_remove")
CALIBRATIONS = ("classical", "analytic")
RELEASES = ("none", "worst_case", "laplace", "randomized_response")

Leaf = Array | float  # a number, or a tracer where a sweep varies it


@flax.struct.dataclass
class MechanismConfig:
    """Settings of every mechanism; each reads the ones it names.

    Array leaves may differ between the cells of one compiled sweep. Static fields
    change the program. Defaults are the published set-up (FedSVA, sec. 4.1) where
    one was published.
    """

    epsilon: Leaf = 0.2  # () claimed per upload
    delta: Leaf = 0.02  # () claimed per upload; published: 1 / batch size
    l2_norm_clip: Leaf = 20.0  # () C, bound on a gradient's norm
    min_num_examples: Leaf = 1.0  # () m, the smallest client's training examples
    noise_floor: Leaf = 0.01  # () β of FedSVA/FedSDP; no published value
    update_clip: Leaf = 1.0  # () S, bound on an update's norm
    noise_multiplier: Leaf = 1.0  # () z of dp_fedavg: std on the sum / S
    analytic_multiplier: Leaf | None = None  # () see `with_analytic_multiplier`
    noise_std: Leaf = 0.0  # () std of `gaussian`
    exposures: Leaf = 1.0  # () L of NbAFL: uploads that one ε covers
    decay: Leaf = 0.995  # () θ of time_varying
    contraction: Leaf = 0.98  # () c of dpa
    gamma: Leaf = 0.5  # () γ of sensitivity: weight of the client's own norm
    clip_quantile: Leaf = 0.5  # () γ of adaptive clipping
    clip_learning_rate: Leaf = 0.2  # () η_C of adaptive clipping
    count_noise_std: Leaf = 2.0  # () σ_b of adaptive clipping, std on a count
    release_epsilon: Leaf = 0.1  # () ε of one release of R

    num_rounds: int = flax.struct.field(pytree_node=False, default=400)
    num_clients: int = flax.struct.field(pytree_node=False, default=100)
    cohort_size: int = flax.struct.field(pytree_node=False, default=10)
    local_epochs: int = flax.struct.field(pytree_node=False, default=2)
    batch_size: int = flax.struct.field(pytree_node=False, default=50)
    sensitivity: str = flax.struct.field(pytree_node=False, default="paper")
    relation: str = flax.struct.field(pytree_node=False, default="replace_one")
    calibration: str = flax.struct.field(pytree_node=False, default="classical")
    allow_large_epsilon: bool = flax.struct.field(pytree_node=False, default=False)
    contribution_release: str = flax.struct.field(pytree_node=False, default="none")
    clip_weights: bool = flax.struct.field(pytree_node=False, default=False)
    downlink_noise: bool = flax.struct.field(pytree_node=False, default=False)
    adaptive_clip: bool = flax.struct.field(pytree_node=False, default=False)


def concrete(value: Any) -> np.ndarray | None:
    """The number(s) as float64, or None for a tracer (which passes unchecked)."""
    if isinstance(value, jax.core.Tracer):
        return None
    return np.asarray(value, np.float64)


def _require(name: str, value: Any, ok: Any, allowed: str) -> None:
    number = concrete(value)
    if number is not None and not np.all(ok(number)):
        raise ValueError(f"{name} must be {allowed}, got {value}")


def _is_open_unit(x: np.ndarray) -> np.ndarray:
    return (x > 0) & (x < 1)


def validate_config(config: MechanismConfig) -> None:
    """Checks every concrete number.

    Raises:
      ValueError: one sentence that names the field, its value and what is allowed.
    """
    for name in (
        "epsilon",
        "l2_norm_clip",
        "noise_floor",
        "update_clip",
        "exposures",
        "clip_learning_rate",
        "count_noise_std",
        "release_epsilon",
    ):
        _require(name, getattr(config, name), lambda x: x > 0, "> 0")
    _require("noise_std", config.noise_std, lambda x: x >= 0, ">= 0")
    _require("delta", config.delta, _is_open_unit, "in (0, 1)")
    _require("clip_quantile", config.clip_quantile, _is_open_unit, "in (0, 1)")
    _require("min_num_examples", config.min_num_examples, lambda x: x >= 1, ">= 1")
    _require("noise_multiplier", config.noise_multiplier, lambda x: x >= 0, ">= 0")
    for name in ("decay", "contraction"):
        value = getattr(config, name)
        _require(name, value, lambda x: (x > 0) & (x <= 1), "in (0, 1]")
    _require("gamma", config.gamma, lambda x: (x >= 0) & (x <= 1), "in [0, 1]")
    for name in (
        "num_rounds",
        "num_clients",
        "cohort_size",
        "local_epochs",
        "batch_size",
    ):
        if getattr(config, name) < 1:
            raise ValueError(f"{name} must be >= 1, got {getattr(config, name)}")
    if config.cohort_size > config.num_clients:
        raise ValueError(
            f"cohort_size must be at most num_clients = {config.num_clients}, "
            f"got {config.cohort_size}"
        )
    for name, allowed in (
        ("sensitivity", SENSITIVITIES),
        ("relation", RELATIONS),
        ("calibration", CALIBRATIONS),
        ("contribution_release", RELEASES),
    ):
        if getattr(config, name) not in allowed:
            raise ValueError(
                f"{name} must be one of {', '.join(allowed)}, "
                f"got {getattr(config, name)!r}"
            )
