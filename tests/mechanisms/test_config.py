"""Bad settings are refused by name and value; tracers pass."""

import dataclasses

import jax
import numpy as np
import pytest

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import MechanismConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", -1.0),
        ("epsilon", float("nan")),
        ("delta", 0.0),
        ("delta", 1.0),
        ("l2_norm_clip", 0.0),
        ("noise_floor", 0.0),
        ("update_clip", -1.0),
        ("exposures", 0.0),
        ("release_epsilon", 0.0),
        ("noise_std", -0.1),
        ("noise_multiplier", -1.0),
        ("min_num_examples", 0.0),
        ("decay", 1.5),
        ("contraction", 0.0),
        ("gamma", 2.0),
        ("clip_quantile", 1.0),
        ("num_rounds", 0),
        ("cohort_size", 101),
        ("sensitivity", "mine"),
        ("relation", "swap"),
        ("calibration", "exact"),
        ("contribution_release", "all"),
    ],
)
def test_a_bad_value_is_refused_with_its_name(field: str, value: object):
    config = dataclasses.replace(MechanismConfig(), **{field: value})
    with pytest.raises(ValueError, match=f"{field} must be"):
        mechanisms.make_mechanism("nbafl", config)


def test_stacked_numbers_of_a_sweep_are_checked_too():
    config = MechanismConfig(epsilon=np.asarray([0.1, -0.1]))
    with pytest.raises(ValueError, match="epsilon must be > 0"):
        mechanisms.make_mechanism("nbafl", config)


def test_tracers_pass_unchecked():
    @jax.jit
    def build(config: MechanismConfig) -> jax.Array:
        mechanisms.make_mechanism("nbafl", config)
        return config.epsilon

    assert build(MechanismConfig(epsilon=-1.0)) == -1
