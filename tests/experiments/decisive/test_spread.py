"""A budget that is spread is spent, and never more than that."""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from published import upload

from experiments.decisive import spread
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, make_mechanism

CONFIG = MechanismConfig(
    num_clients=20,
    cohort_size=5,
    cohorts="cyclic",
    num_rounds=12,
    max_uploads=3,
    batch_size=10,
    epsilon=0.5,
    delta=1e-5,
    l2_norm_clip=0.3,
    sensitivity="update_clip",
    contribution_release="randomized_response",
)


def play(mechanism: Mechanism, ratios: tuple[float, ...]) -> list[tuple[float, float]]:
    """(std, counted multiplier) of one client's uploads."""
    memory, sent = mechanism.init(20).of(3), []
    for ratio in ratios:
        _, memory, info = upload(mechanism, jnp.ones((4,)), state=memory, ratio=ratio)
        sent.append((float(info.noise_std), float(info.noise_multiplier)))
    return sent


def precision(sent: list[tuple[float, float]]) -> float:
    return sum((0.6 / std) ** 2 for std, _ in sent)  # replace: 2S = .6


@pytest.mark.parametrize("ratios", list(itertools.product((0.0, 1.0), repeat=3)))
def test_whatever_is_released_the_budget_is_what_the_ledger_counts(
    ratios: tuple[float, ...],
) -> None:
    sent = play(spread.make_guided(CONFIG), ratios)
    counted = sum(1 / z**2 for _, z in sent)
    assert np.isclose(precision(sent), counted, rtol=1e-5)
    assert precision(sent[:2]) < counted


def test_more_is_spent_where_r_is_large_and_where_the_weights_are() -> None:
    most, least, _ = play(spread.make_guided(CONFIG), (1.0, 0.0, 0.5))
    assert most[0] < least[0]
    first, second, third = play(spread.make_public(CONFIG), (0.0, 0.0, 0.0))
    ratio = spread.PUBLIC_RATIOS[1] / spread.PUBLIC_RATIOS[0]
    assert np.isclose((first[0] / second[0]) ** 2, ratio, rtol=1e-5)
    assert third[0] < second[0]


def test_an_even_spread_is_constant_noise() -> None:
    constant = make_mechanism("nbafl", CONFIG)
    even = spread._spread(CONFIG, spread.guided_share(3, 0.0), guided=True)
    assert np.allclose(play(even, (0.0, 1.0, 1.0)), play(constant, (1.0,) * 3))


def test_only_a_released_ratio_is_proved_and_read() -> None:
    assert spread.make_guided(CONFIG).claim.proved
    assert not spread.make_public(CONFIG).needs_contribution
    itself = dataclasses.replace(CONFIG, contribution_release="raw")
    assert not spread.make_guided(itself).claim.proved
    assert spread.make_public(itself).claim.proved


@pytest.mark.parametrize(
    "change", [{"cohorts": "drawn"}, {"num_rounds": 11}, {"max_uploads": None}]
)
def test_clients_that_may_upload_more_or_less_often_are_refused(change: dict) -> None:
    with pytest.raises(ValueError, match="a spread budget needs cohorts=cyclic"):
        spread.make_guided(dataclasses.replace(CONFIG, **change))


def test_discrete_noise_is_refused() -> None:
    discrete = dataclasses.replace(CONFIG, noise_sampler="discrete")
    with pytest.raises(ValueError, match="noise_sampler must be gaussian"):
        spread.make_public(discrete)
