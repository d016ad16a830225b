"""What a record spends that several clients hold."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import Book, record
from published import make
from small_runs import digits, small

from fedsvp_jax import federation
from fedsvp_jax.accounting import claims, composed_epsilon
from fedsvp_jax.accounting.claims import spent_by_copies
from fedsvp_jax.mechanisms import analytic_multiplier
from fedsvp_jax.mechanisms.subsampling import Subsampling

pytestmark = pytest.mark.hole
UPLOADS = {"multiplier": 2.0, "epsilon": 0.1, "delta": 1e-5}


@pytest.mark.parametrize(("copies", "epsilon"), [(4, 4.39), (12, 8.42)])
def test_a_claim_of_2_is_larger_for_a_record_with_copies(
    copies: int, epsilon: float
) -> None:
    """ACCOUNT.md: no row said so."""
    book = Book(20, who={"copies": copies})
    multiplier = float(analytic_multiplier(2.0, 1e-5))
    record(book, list(range(20)), **(UPLOADS | {"multiplier": multiplier}))
    spent, _ = spent_by_copies(book.account, "gdp", "server")
    assert spent == pytest.approx(epsilon, abs=0.005)


@given(seed=st.integers(0, 10**6), copies=st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_no_record_of_any_federation_spends_more_than_its_row(
    seed: int, copies: int
) -> None:
    """Cohorts, noise, weights and holders are drawn; the move of a record is summed."""
    rng = np.random.default_rng(seed)
    num_clients, num_rounds = 6, int(rng.integers(1, 7))
    holders = rng.permutation(num_clients)[:copies]
    book = Book(num_clients, against_server=False, who={"copies": copies})
    server = observer = 0.0
    for _ in range(num_rounds):
        ids = rng.permutation(num_clients)[: rng.integers(1, num_clients + 1)]
        z, std = rng.uniform(0.5, 3, len(ids)), rng.uniform(0.1, 2, len(ids))
        weights = rng.dirichlet(np.ones(len(ids)))
        record(book, ids, **(UPLOADS | {"multiplier": z}), std=std, weights=weights)
        holds = np.isin(ids, holders)
        server += (1 / z[holds] ** 2).sum()
        move = (weights * std / z)[holds].sum()
        observer += move**2 / np.square(weights * std).sum()
    for view, spent in (("server", server), ("observer", observer)):
        claimed, _ = spent_by_copies(book.account, "gdp", view)
        assert composed_epsilon("gdp", spent, 1e-5) <= claimed * (1 + 1e-9)


@pytest.mark.parametrize(("against_server", "uploads"), [(True, 2), (False, 4)])
def test_an_average_spends_no_more_than_uploads_where_these_are_claimed(
    against_server: bool, uploads: int
) -> None:
    """Two holders upload one after another, so Minkowski's bound is twice the sum."""
    book = Book(2, against_server=against_server, who={"copies": 2})
    for client in (0, 1):
        record(book, [client], **UPLOADS, weights=1.0)
    spent, _ = spent_by_copies(book.account, "gdp", "observer")
    assert spent == pytest.approx(composed_epsilon("gdp", uploads / 2.0**2, 1e-5))


def test_poisson_batches_of_clients_of_two_sizes_compose() -> None:
    """No kind alone bounds the mixture; the worst rate with the worst count does."""
    subsampling = Subsampling(((0.05, 40), (0.02, 80)), 80)
    book = Book(4, subsampling=subsampling, who={"copies": 2})
    for _ in range(2):
        record(book, [0, 1, 2, 3], **UPLOADS, std=0.0)
    claimed, _ = spent_by_copies(book.account, "rdp", "server")
    accountant = rdp_privacy_accountant.RdpAccountant()
    for rate, steps in subsampling.kinds:
        event = dp_accounting.GaussianDpEvent(2.0 * math.sqrt(80))
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, event), 2 * steps)
    unsampled = composed_epsilon("rdp", 4 / 2.0**2, 1e-5)
    assert accountant.get_epsilon(1e-5) <= claimed < unsampled


@pytest.mark.parametrize("partition", ["paper", "iid"])
def test_a_run_says_how_many_clients_hold_one_record(partition: str) -> None:
    config = small(partition=partition, mechanism="nbafl", clipping="update_clip")
    program = federation.build([config], digits())
    held, split = np.zeros(len(digits().train_labels), int), program.data.split
    for rows, counts in (
        (split.train[0], split.num_train[0]),
        (split.validation[0], split.num_validation[0]),
    ):
        for client, count in enumerate(counts):
            held[np.asarray(rows[client, :count])] += 1
    (copies,) = program.data.most_copies
    assert copies == held.max() and (copies > 1) == (partition == "paper")


def test_rows_of_all_copies_stand_beside_those_of_one() -> None:
    book = Book(7, make("nbafl", clipping="update_clip"))
    record(book, [0, 1, 2], **UPLOADS, weights=1 / 3)
    for copies in (1, 2):
        rows = claims.summary(book.claiming(copies=copies))["guarantees"]
        composed = [row for row in rows if row["method"] in ("rdp", "pld")]
        one = [row for row in composed if row["copies"] == 1]
        more = [row for row in composed if row["copies"] > 1]
        assert len(more) == (len(one) if copies > 1 else 0)
        for single, all_of_them in zip(one, more, strict=False):
            assert all_of_them["adversary"] == single["adversary"]
            assert all_of_them["epsilon"] > single["epsilon"]
            assert all_of_them["status"] == single["status"] == "proved"
            assert "up to 2 clients" in all_of_them["relation"]
