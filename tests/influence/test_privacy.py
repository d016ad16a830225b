"""What votes, test sets and contributions cost."""

import math

import numpy as np
import pytest

from fedsvp_jax.accounting import OtherCosts, composed_epsilon
from fedsvp_jax.influence import privacy
from fedsvp_jax.influence.settings import FilterSettings


@pytest.mark.parametrize(
    ("flip", "published"),
    [(0.5, 2.197225), (0.755081, 1.0), (0.0, math.inf), (1.0, 0.0)],
)
def test_the_price_of_a_vote_is_half_the_published_one(flip: float, published: float):
    exact = privacy.exact_vote_epsilon(flip)
    np.testing.assert_allclose(exact, published / 2, rtol=1e-5)
    if published > 0:
        found = privacy.flip_probability(published)
        np.testing.assert_allclose(found, flip, rtol=1e-5)


@pytest.mark.parametrize(("passes", "finite"), [(1, True), (2, False)])
def test_a_test_set_pays_for_every_vote_and_without_end_for_one_that_may_change(
    passes: int, finite: bool
):
    settings = FilterSettings(vote_epsilon=1.0, contribution_noise=0.1)
    cost = privacy.filter_cost(settings, num_participants=100, delta=1e-5)._replace(
        passes=passes
    )
    assert cost.votes == 99 * passes and math.isfinite(cost.precision)
    told = {"responses": [(cost.votes, cost.vote_epsilon)]}
    exact = composed_epsilon("pld", 0.0, 1e-5, **told)
    if finite:  # at most the sum, and more than k ε tanh(ε/2), its mean
        assert 99 * 0.5 * math.tanh(0.25) < exact < 99 * 0.5
    else:
        assert cost.vote_epsilon == exact == math.inf


def test_a_contribution_is_a_gaussian_of_half_the_noise_multiplier():
    """Another batch may turn the clipped update around: sensitivity 2C."""

    def hidden(noise_multiplier: float, passes: int = 1) -> OtherCosts:
        told = FilterSettings(vote_epsilon=0.4, contribution_noise=noise_multiplier)
        cost = privacy.filter_cost(told, num_participants=5, delta=1e-5)
        return cost._replace(passes=passes)

    cost = hidden(2 * 3.730632)
    np.testing.assert_allclose(cost.contribution_epsilon, 1.0, atol=1e-4)
    np.testing.assert_allclose(cost.precision, 3.730632**-2)
    assert cost.delta == 1e-5
    assert (cost.votes, cost.vote_epsilon) == (4, pytest.approx(0.2))
    assert cost.basic_epsilon == pytest.approx(cost.contribution_epsilon + 4 * 0.2)
    assert hidden(2 * 3.730632, passes=2).precision == 2 * cost.precision
    without = hidden(0.0)
    assert without.precision == without.contribution_epsilon == math.inf
    assert without.delta == 0


def test_a_vote_that_float32_would_never_flip_is_refused():
    """A uniform draw steps by 2^-23, so a flip rarer than that would never happen."""
    with pytest.raises(ValueError, match=r"vote_epsilon must be .* at most 20, or inf"):
        FilterSettings(vote_epsilon=40.0)
    assert FilterSettings(vote_epsilon=math.inf).vote_epsilon == math.inf
    assert privacy.flip_probability(20.0) / 2 > 100 * 2.0**-23
