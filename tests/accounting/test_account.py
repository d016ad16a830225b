"""The account and its accountants: laws, METHODS section 5's numbers, guarantees."""

import math
import time

import dp_accounting
import ledgers
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from ledgers import Book

from fedsvp_jax.accounting import OtherCosts, claims, composed_epsilon, views

PUBLISHED = math.sqrt(-2 * math.log(0.02)) / 0.2  # z at R = 0, ε = .2, δ = .02: 13.986


def record(book: Book, ids, *, multiplier=PUBLISHED, **more) -> None:
    """Noise of a sensitivity of 1."""
    ledgers.record(book, ids, **({"multiplier": multiplier, "std": multiplier} | more))


@pytest.mark.parametrize(
    ("uploads", "exact", "basic"), [(1, 0.236, 0.2), (40, 1.782, 8.0), (400, 6.661, 80)]
)
def test_composition_of_methods_section_5(uploads: int, exact: float, basic: float):
    book = Book(3)
    for _ in range(uploads):
        record(book, [1])
    assert round(book.epsilon_spent("gdp", 1e-5), 3) == exact
    np.testing.assert_allclose(book.epsilon_spent("pld", 1e-5), exact, atol=6e-4)
    assert exact < book.epsilon_spent("rdp", 1e-5) < 1.12 * exact
    if (delta := 0.025 * uploads) >= 1:  # at which anything holds
        basic = math.inf
    np.testing.assert_allclose(book.epsilon_spent("basic", 1e-5), basic, rtol=1e-9)
    np.testing.assert_allclose(book.delta_spent(), delta, rtol=1e-9)


def test_releasing_r_costs_more_than_fixing_it_at_its_worst():
    """40 uploads at ε = .2, δ = .02: what docs/privacy.md tells."""

    def spent(ratio: float, release: float) -> float:
        multiplier = math.sqrt(ratio - 2 * math.log(0.02)) / 0.2
        found = composed_epsilon(
            "pld", 40 / multiplier**2, 1e-5, responses=[(40, release)]
        )
        return round(found, 3)

    assert spent(0.0, 0.0) == 1.782
    assert spent(1.0, 0.0) == 1.667  # worst_case
    assert [spent(0.0, e) for e in (0.01, 0.1, 1.0)] == [1.801, 3.221, 38.128]


def test_the_largest_client_is_reported_and_each_can_be_asked_for():
    book = Book(4)
    record(book, [0, 3])
    record(book, [3, -1])
    assert book.uploads.tolist() == [1, 0, 0, 2]
    for method in ("basic", "rdp", "pld", "gdp"):
        each = [book.alone(i).epsilon_spent(method, 1e-5) for i in range(4)]
        assert each[1] == each[2] == 0 and 0 < each[0] < each[3]
        assert book.epsilon_spent(method, 1e-5) == each[3]
    record(book, [0], multiplier=0.0)  # without noise
    for method in ("rdp", "pld", "gdp"):
        assert book.epsilon_spent(method, 1e-5) == math.inf
        assert book.alone(1).epsilon_spent(method, 1e-5) == 0


@pytest.mark.parametrize("told", [{"std": 0.0, "weights": 1 / 3}, {"weights": None}])
def test_noise_in_the_steps_or_in_no_average_is_not_hidden_by_that_of_others(told):
    """What leaves such a client holds its own noise alone: no view gains from K."""
    alone, averaged = Book(3), Book(3)
    record(alone, [0, 1, 2], **told)
    record(averaged, [0, 1, 2], weights=1 / 3)
    server = alone.epsilon_spent("rdp", 1e-5)
    for view in views.VIEWS[1:]:
        assert alone.epsilon_spent("rdp", 1e-5, view=view) == server
    assert averaged.epsilon_spent("rdp", 1e-5, view="observer") < server


def test_a_pass_of_the_filter_is_added_to_every_client_in_every_view():
    """Contributions join the Gaussians, votes the randomised responses."""
    cost = OtherCosts(1, 5.0, 0.7, 1e-6, votes_per_pass=2, epsilon_per_vote=0.3)
    book = Book(3, release_epsilon=0.1, who={"other_costs": cost})
    record(book, [0], multiplier=4.0, weights=1.0)
    book.record_pass()
    for view in views.VIEWS:
        for method in ("rdp", "pld", "gdp"):
            for client, precision, releases in ((0, 1 / 16, 1), (2, 0.0, 0)):
                found = book.alone(client).epsilon_spent(method, 1e-5, view=view)
                pure, both = [(releases, 0.1), (2, 0.3)], precision + 1 / 25
                assert found == composed_epsilon(method, both, 1e-5, responses=pure)
    spent = [book.alone(client).epsilon_spent("basic") for client in (0, 2)]
    assert spent == pytest.approx([0.3 + 0.7 + 2 * 0.3, 0.7 + 2 * 0.3])
    assert book.by_client()["delta"][2] == pytest.approx(1e-6)


def test_a_second_pass_can_show_that_a_vote_changed():
    book = Book(3, who={"other_costs": OtherCosts(2, 5.0, 0.7, 1e-6, 2, 0.3)})
    for passes, open_votes in ((1, False), (2, True)):
        book.record_pass()
        assert book.other_costs.precision == pytest.approx(passes / 25)
        assert book.delta_spent() == pytest.approx(passes * 1e-6)
        for method in ("basic", "rdp", "pld"):
            assert math.isinf(book.epsilon_spent(method, 1e-5)) == open_votes


def replace_one() -> RdpAccountant:
    """dp-accounting's, of neighbours of which one record is replaced."""
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    return RdpAccountant(neighboring_relation=relation)


def test_votes_and_releases_compose_with_gaussians_as_dp_accountings():
    accountant = replace_one()
    accountant.compose(dp_accounting.GaussianDpEvent(5.0), 4)
    for count, epsilon in ((4, 0.3), (9, 0.1)):
        noise = 2 / (1 + math.exp(epsilon))
        accountant.compose(dp_accounting.RandomizedResponseDpEvent(noise, 2), count)

    def spent(method: str, *responses: tuple[int, float]) -> float:
        return composed_epsilon(method, 4 / 25, 1e-5, responses=responses)

    both = (4, 0.3), (9, 0.1)
    found, exact = spent("rdp", *both), spent("pld", *both)
    np.testing.assert_allclose(found, accountant.get_epsilon(1e-5), rtol=1e-6)
    assert exact < found
    assert exact == pytest.approx(spent("pld", *both[::-1]), rel=1e-6)
    assert spent("gdp", *both) == pytest.approx(spent("gdp") + 4 * 0.3 + 9 * 0.1)


@pytest.mark.parametrize(("release", "dearer"), [(0.0, 1), (3.0, 0)])
def test_of_fewer_uploads_with_less_noise_the_dearer_count(release: float, dearer: int):
    book = Book(2, release_epsilon=release)
    for client, uploads, z in ((0, 3, 10.0), (1, 1, 1.0)):
        for _ in range(uploads):
            record(book, [client], multiplier=z, epsilon=1e-3)
    for method, client in (("rdp", dearer), ("pld", dearer), ("basic", 0)):
        each = [book.alone(i).epsilon_spent(method) for i in range(2)]
        assert book.epsilon_spent(method) == max(each) == each[client]


def test_an_account_is_gone_on_with_once_and_a_copy_apart():
    book = Book(3)
    first = book.account
    record(book, [0, 1])
    second, copied = book.account, book.account.from_arrays(book.account.arrays())
    record(book, [0])
    for use in (second.delta_spent, lambda: second.uploads, second.arrays):
        with pytest.raises(RuntimeError, match="after round 1 was gone on with"):
            use()
    assert first.uploads.tolist() == [0, 0, 0]  # the zeros are every run's
    assert copied.uploads.tolist() == [1, 1, 0] and book.uploads.tolist() == [2, 1, 0]


@pytest.mark.hole
def test_a_round_touches_its_cohort_alone():
    """It copied the sums of every client: 103 ms a round of a million clients."""
    book = Book(10**6)
    record(book, [0])
    begun = time.process_time()
    for number in range(100):
        record(book, [number, 10**6 - 1 - number])
        book.epsilon_spent("rdp", 1e-5)
    assert time.process_time() - begun < 1.0
    assert book.uploads[[0, 1, 2, -1]].tolist() == [2, 1, 1, 1]


def test_the_largest_sums_are_those_of_all_clients():
    """Drawn cohorts of uneven noise, each client asked alone."""
    rng, book = np.random.default_rng(0), Book(8, release_epsilon=0.3)
    for _ in range(30):
        ids = rng.choice(8, rng.integers(1, 6), replace=False)
        noise = {"multiplier": rng.uniform(1, 9), "epsilon": rng.uniform(0.1, 2)}
        record(book, ids, **noise, weights=rng.uniform(0.1, 1))
        for again in (book, book.again()):
            for method in ("basic", "rdp"):
                each = [again.alone(i).epsilon_spent(method, 1e-5) for i in range(8)]
                assert again.epsilon_spent(method, 1e-5) == max(each)
        largest = book.account.most_spent("server")
        assert largest.uploads == book.uploads.max()
        assert largest.precision == book.precision[0].max()


def test_a_checkpoint_restores_the_account_exactly():
    cost = OtherCosts(1, 5.0, 0.7, 1e-6, 4, 0.3)
    who = {"other_costs": cost, "colluders": 2}
    book = Book(5, proved=True, release_epsilon=0.1, who=who)
    book.record_pass()
    for _ in range(3):
        record(book, [0, 4, 2], weights=1 / 3)
    again = book.again()
    for name, values in again.arrays().items():
        assert np.array_equal(values, book.arrays()[name])
    assert again.other_costs == book.other_costs
    for both in (book, again):
        record(both, [1, 4], weights=1 / 2)
    for view in views.VIEWS:
        assert again.epsilon_spent("rdp", 1e-5, view=view) == book.epsilon_spent(
            "rdp", 1e-5, view=view
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: record(Book(2), [2]), "client_ids"),
        (lambda: record(Book(2), [1, 1]), "client_ids"),
        (lambda: Book(2).epsilon_spent("mine", 1e-5), "method"),
        (lambda: Book(2).epsilon_spent("rdp", 0.0), "delta"),
        (lambda: composed_epsilon("basic", 1.0, 1e-5), "method"),
    ],
)
def test_bad_input_is_refused_by_name(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("known", [0, 1, 2, 5, 9])
def test_the_average_hides_behind_the_noise_that_colluders_do_not_know(known: int):
    rng = np.random.default_rng(known)
    std, z = rng.uniform(0.5, 2, 6), rng.uniform(5, 15, 6)
    weights = rng.dirichlet(np.ones(6))
    found = views.averaged_multiplier(z, std, weights, known)
    square = np.square(weights * std)
    for i in range(6):
        others = np.sort(np.delete(square, i))[: max(0, 5 - known)].sum()
        moved = weights[i] * std[i] / z[i]
        assert found[i] == pytest.approx(math.sqrt(square[i] + others) / moved)
    assert np.all(found >= z * (1 - 1e-12))


def rows_of(book: Book, **who) -> dict:
    rows = claims.table(book.claiming(**who))
    return {(row.adversary, row.method): row for row in rows}


def test_a_trusted_server_gets_no_guarantee_and_central_claims_go_to_the_observer():
    book = Book(9, proved=True, view="observer", against_server=False)
    record(book, range(9), weights=1 / 9)
    rows = rows_of(book)
    assert rows["server", "none"].epsilon == math.inf
    assert not rows["server", "none"].proved
    assert ("outside observer of the final model", "basic") in rows


def test_sampling_amplifies_only_with_a_client_level_bound_and_secret_cohorts():
    def drawn_twenty_times(swap: float | None, **own) -> Book:
        book = Book(100, proved=True, client_swap=swap, **own)
        rng = np.random.default_rng(0)
        for _ in range(20):
            ids = rng.choice(100, 10, replace=False)
            record(book, ids, multiplier=2.0, weights=0.1)
        return book

    who = ("outside observer of the final model", "rdp, sampled without replacement")
    once, twice, never = map(drawn_twenty_times, (1.0, 2.0, None))
    assert who not in rows_of(once)
    assert who not in rows_of(never, equal_weights=True)
    assert who not in rows_of(once, equal_weights=True, max_uploads=5)
    amplified = rows_of(once, equal_weights=True)[who]
    swap_of_two = rows_of(twice, equal_weights=True)[who]
    assert amplified.epsilon < swap_of_two.epsilon
    assert amplified.relation == "replace a client"
    assert amplified.epsilon < composed_epsilon("rdp", 20 / 40, 1e-5)
    alone = replace_one()
    gaussian = dp_accounting.GaussianDpEvent(2.0 * math.sqrt(10))
    drawn = dp_accounting.SampledWithoutReplacementDpEvent(100, 10, gaussian)
    alone.compose(drawn, 20)
    assert amplified.epsilon == pytest.approx(alone.get_epsilon(1e-5), rel=1e-6)
    telling = drawn_twenty_times(1.0, release_epsilon=0.1)
    assert who not in rows_of(telling, equal_weights=True)  # R, at every upload


def test_uneven_noise_or_weights_rule_amplification_out():
    for change in ({"std": [1.0, 2.0]}, {"weights": [0.4, 0.6]}):
        book = Book(100, proved=True, client_swap=1.0)
        record(book, [0, 1], **({"weights": [0.5, 0.5]} | change))
        rows = rows_of(book, equal_weights=True)
        assert not any("sampled" in method for _, method in rows)


def test_an_upload_of_public_data_in_a_shared_sum_makes_no_number_nan():
    """inf·0 would make every ε of the cohort NaN."""
    book = Book(3, proved=True, view="observer")
    z, std, delta = [4.0, np.inf], [0.2, 0.0], [1e-5, 0.0]
    record(book, [0, 1], multiplier=z, std=std, delta=delta, weights=0.5)
    assert book.alone(1).epsilon_spent("basic") == 0
    alone = composed_epsilon("gdp", 1 / 4.0**2, 1e-5)
    for view in views.VIEWS:
        assert book.epsilon_spent("gdp", 1e-5, view=view) == pytest.approx(alone)
        assert book.alone(1).epsilon_spent("gdp", 1e-5, view=view) == 0
