"""A mechanism's settings: each of its own kind, checked together; tracers pass."""

import dataclasses

import jax
import numpy as np
import pytest
from published import SET_UP, make, published

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import MechanismConfig


def test_a_number_that_was_not_given_is_asked_for_and_a_client_has_an_example():
    for name, value in (("min_num_examples", 0.0), ("cohort_size", 101)):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            make("nbafl", **{name: value})
    with pytest.raises(ValueError, match="delta must be given"):
        mechanisms.make_mechanism("nbafl", dataclasses.replace(SET_UP, delta=None))


def test_another_mechanisms_settings_are_refused():
    with pytest.raises(ValueError, match="settings of dpa must be DpaSettings"):
        mechanisms.make_mechanism("dpa", published("time_varying"))


def test_stacked_numbers_of_a_sweep_are_checked_too():
    with pytest.raises(ValueError, match="epsilon must be greater than 0"):
        published(epsilon=np.asarray([0.1, -0.1]))


def test_tracers_pass_unchecked():
    @jax.jit
    def build(epsilon: jax.Array) -> jax.Array:
        config: MechanismConfig = published(epsilon=epsilon)
        mechanisms.make_mechanism("nbafl", config)
        return config.epsilon

    assert build(-1.0) == -1


def test_a_cohort_may_be_the_whole_federation():
    assert make("nbafl", cohort_size=100, num_clients=100).least_multiplier > 0
