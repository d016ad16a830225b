"""Poisson batches in the account: counted as dp-accounting counts them."""

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from ledgers import Book, record

from fedsvp_jax.accounting import composed_epsilon, views
from fedsvp_jax.mechanisms.subsampling import SampledSteps, Subsampling

DELTA = 1e-5


def event(multiplier: float, rate: float, count: int) -> dp_event.DpEvent:
    step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(multiplier))
    return dp_event.SelfComposedDpEvent(step, count)


@pytest.mark.parametrize("steps", [(5.8, 0.025, 3200), (1.1, 0.1, 60), (0.7, 0.5, 2)])
def test_steps_compose_as_dp_accountings(steps: tuple[float, float, int]):
    by_rdp = RdpAccountant().compose(event(*steps)).get_epsilon(DELTA)
    by_pld = PLDAccountant().compose(event(*steps)).get_epsilon(DELTA)
    given = SampledSteps(*steps)
    found = composed_epsilon("rdp", 0.0, DELTA, steps=given)
    assert found == pytest.approx(by_rdp, rel=1e-5)
    found = composed_epsilon("pld", 0.0, DELTA, steps=given)
    assert found == pytest.approx(by_pld, rel=1e-3)
    # Together with contributions and votes of the influence filter.
    mixed = PLDAccountant().compose(event(*steps))
    mixed.compose(dp_event.GaussianDpEvent(2.0))
    found = composed_epsilon("pld", 0.25, DELTA, steps=given)
    assert found == pytest.approx(mixed.get_epsilon(DELTA), rel=1e-3)
    # Every batch whole: one Gaussian, exactly.
    whole = SampledSteps(3.0, 1.0, 9)
    assert composed_epsilon("pld", 0.0, DELTA, steps=whole) == composed_epsilon(
        "pld", 1.0, DELTA
    )


def test_the_extremes_of_the_noise_have_an_epsilon():
    def epsilon(multiplier: float) -> float:
        steps = SampledSteps(multiplier, 0.1, 9)
        return composed_epsilon("pld", 0.0, DELTA, steps=steps)

    assert epsilon(0.0) == np.inf
    assert epsilon(1e6) < 1e-3
    assert 100 < epsilon(0.05) < np.inf
    with pytest.raises(ValueError, match="method must be rdp or pld for Poisson"):
        composed_epsilon("gdp", 0.0, DELTA, steps=SampledSteps(1.0, 0.1, 9))


def test_the_account_counts_a_clients_steps_at_the_least_noise_of_all():
    book = Book(2, proved=True, subsampling=Subsampling(((0.1, 16),), 16))
    for ids, z in (([0, 1], 0.5), ([0], 0.4), ([0], 0.5)):
        record(book, ids, multiplier=z, std=0.0, weights=1 / len(ids))
    again = book.again()
    steps = SampledSteps(0.4 * 16**0.5, 0.1, 16 * 3)  # of client 0
    worst = composed_epsilon("rdp", 0.0, DELTA, steps=steps)
    for view in views.VIEWS:
        assert again.epsilon_spent("rdp", DELTA, view=view) == worst
    # As if nothing were sampled: a true bound.
    whole = composed_epsilon("gdp", 2 / 0.5**2 + 1 / 0.4**2, DELTA)
    assert book.epsilon_spent("gdp", DELTA) == pytest.approx(whole)
