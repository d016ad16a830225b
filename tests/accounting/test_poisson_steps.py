"""Poisson batches in the account: counted as dp-accounting counts them."""

import dataclasses

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from ledgers import Book, record
from promised import run_epsilon

from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.federation import budget, plan
from fedsvp_jax.mechanisms import make_mechanism
from fedsvp_jax.mechanisms.subsampling import SampledSteps, Subsampling

DELTA = 1e-5
CONFIG = resolve(
    ExperimentConfig(
        dataset="mnist",
        mechanism="gaussian",
        sensitivity="per_example",
        relation="add_remove",
        batches="poisson",
        num_rounds=40,
        num_clients=10,
        cohort_size=10,
        total_epsilon=1.0,
        solve="noise",
        l2_norm_clip=2.0,
    )
)
SIZES = {"min_num_examples": 2000, "max_num_examples": 2000}


def event(multiplier: float, rate: float, count: int) -> dp_event.DpEvent:
    step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(multiplier))
    return dp_event.SelfComposedDpEvent(step, count)


@pytest.mark.parametrize("steps", [(5.8, 0.025, 3200), (1.1, 0.1, 60), (0.7, 0.5, 2)])
def test_steps_compose_as_dp_accountings(steps: tuple[float, float, int]):
    by_rdp = RdpAccountant().compose(event(*steps)).get_epsilon(DELTA)
    by_pld = PLDAccountant().compose(event(*steps)).get_epsilon(DELTA)
    given = SampledSteps(*steps)
    found = composed_epsilon("rdp", 0.0, DELTA, steps=given)
    assert by_rdp <= found * (1 + 1e-9) and found == pytest.approx(by_rdp, rel=0.01)
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


def uploaded(book: Book, ids: list[int], multiplier: float) -> None:
    record(
        book,
        ids,
        multiplier=multiplier,
        std=0.0,
        epsilon=3.0,
        delta=1e-6,
        weights=1 / len(ids),
    )


def test_the_account_counts_a_clients_steps_and_survives_a_checkpoint():
    book = Book(3, proved=True, subsampling=Subsampling(((0.1, 16),), 16))
    uploaded(book, [0, 1], 0.5)  # a step of multiplier .5·√16
    uploaded(book, [0], 0.5)
    for client, uploads in ((0, 2), (1, 1), (2, 0)):
        exact = RdpAccountant().compose(event(2.0, 0.1, 16 * max(uploads, 1)))
        found = book.epsilon_spent("rdp", DELTA, client)
        expected = exact.get_epsilon(DELTA) if uploads else 0.0
        assert found == pytest.approx(expected, rel=0.01)
    # A count that is one step per upload too small would not be within 1 %.
    fewer = RdpAccountant().compose(event(2.0, 0.1, 30)).get_epsilon(DELTA)
    assert book.epsilon_spent("rdp", DELTA) > 1.02 * fewer
    # As if nothing were sampled: a true bound.
    assert book.epsilon_spent("gdp", DELTA) == composed_epsilon("gdp", 8.0, DELTA)
    again = book.again()
    uploaded(again, [0], 0.4)  # the least noise counts for all
    worst = composed_epsilon("rdp", 0.0, DELTA, steps=SampledSteps(1.6, 0.1, 48))
    assert again.epsilon_spent("rdp", DELTA) == pytest.approx(worst)
    assert again.epsilon_spent("rdp", DELTA, view="observer") == pytest.approx(worst)


def test_a_promise_is_a_cap_on_uploads_that_one_more_would_break():
    settings = {"total_epsilon": 1.0, "total_accounting": "pld", "solve": "uploads"}
    config = dataclasses.replace(CONFIG, noise_std=0.2, **settings)
    told = plan.mechanism_config(config, **SIZES)
    mechanism = make_mechanism("gaussian", told)
    uploads = budget.account_of(config, mechanism).plan.most_uploads
    assert 1 < uploads < 40

    def spent(count: int) -> float:
        (steps,) = mechanism.subsampling.steps(float(mechanism.least_multiplier), count)
        return composed_epsilon("pld", 0.0, DELTA, steps=steps)

    assert spent(uploads) <= 1.0 < spent(uploads + 1)
    everyone = dataclasses.replace(config, total_accounting="rdp", noise_std=0.25)
    told = plan.mechanism_config(everyone, **SIZES)
    assert run_epsilon(everyone, told) < 1.0
