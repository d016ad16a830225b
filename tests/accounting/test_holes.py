"""Holes of the guarantees that were found by reading, each with what it would claim."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ledgers import Book, record
from promised import told, uploads_in_a_row
from published import make, published, upload
from small_runs import digits, small

from fedsvp_jax import federation, mechanisms
from fedsvp_jax.accounting import (
    Account,
    Allowance,
    FilterCost,
    Participation,
    claims,
    composed_epsilon,
)
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.baselines import dp_fedavg
from fedsvp_jax.filter_settings import FilterSettings
from fedsvp_jax.influence import privacy
from fedsvp_jax.mechanisms import base, registry
from fedsvp_jax.mechanisms.calibration import concentrated_epsilon
from fedsvp_jax.tree import cell_of

pytestmark = [
    pytest.mark.across("promises over mechanisms, account and program"),
    pytest.mark.hole,
]
NAMES = [name for name in mechanisms.mechanism_names() if name != "none"]


def allowance(promise, config, mechanism) -> Allowance:
    return Account.of(mechanism, Participation.of(config), promise).plan.allowance


def claimed(name: str, **changes) -> tuple[np.ndarray, np.ndarray]:
    """(T, 2): the ε and δ that the uploads of all rounds claim at R = 0 and R = 1."""
    config, mechanism = told(name, **changes)
    size = int(config.min_num_examples)

    def of_round(round_num, ratio):
        info = upload(
            mechanism,
            jnp.ones((1,)),
            num_examples=size,
            ratio=ratio,
            round_num=round_num,
        )[2]
        return info.epsilon, info.delta

    rounds, ratios = jnp.arange(config.num_rounds), jnp.asarray([0.0, 1.0])
    by_ratio = jax.vmap(of_round, (None, 0))
    epsilons, deltas = jax.jit(jax.vmap(by_ratio, (0, None)))(rounds, ratios)
    return np.asarray(epsilons, float), np.asarray(deltas, float)


@pytest.mark.parametrize("name", NAMES)
def test_g1_a_cap_by_basic_composition_counts_what_the_mechanism_claims(name: str):
    """Before, it counted the setting epsilon: gaussian's promise of 4 became 50."""
    own = {
        "nbafl": {"exposures": 0.5},
        "gaussian": {"noise_std": 400.0},
        "dp_fedavg": {"noise_multiplier": 5.0},
    }
    changes = {"delta": 1e-3} | own.get(name, {})
    if name not in ("fedsva", "fedsdp"):
        changes["sensitivity"] = "update_clip"
    mechanism = make(name, **changes)
    promise = PromiseSettings(total_epsilon=4.0, total_accounting="basic")
    found = allowance(promise, published(name, **changes), mechanism)
    cap = uploads_in_a_row(found)
    epsilons, deltas = claimed(name, **changes)
    by_round = epsilons.max(axis=1)
    assert by_round[:cap].sum() <= 4.0 * (1 + 1e-5)
    assert cap * deltas.max() < 1
    assert np.all(np.asarray(mechanism.most_epsilon) >= by_round * (1 - 1e-6))
    assert float(np.max(mechanism.most_delta)) >= deltas.max() * (1 - 1e-6)


@pytest.mark.parametrize("release", ["raw", "randomized_response"])
def test_g1_delta_of_fedsva_does_not_add_up_to_one(release: str):
    """At ε = .2 and a promise of 10, fifty uploads claimed Σδ of up to 1.25."""
    promise = PromiseSettings(total_epsilon=10.0, total_accounting="basic")
    changes = {"contribution_release": release, "release_epsilon": 0.01}
    config, mechanism = told("fedsva", **changes)
    found = allowance(promise, config, mechanism)
    assert float(mechanism.most_delta) == pytest.approx(0.025, rel=1e-4)
    assert uploads_in_a_row(found) * float(mechanism.most_delta) < 1


def test_g3_a_promise_pays_for_the_filter_first_or_is_refused():
    """A promise of 1 was accepted although a contribution alone cost 284."""
    filtered = {"influence_filter": "join", "mechanism": "nbafl", "delta": 1e-3}
    published_noise = filtered | {"vote_epsilon": 1.0}
    with pytest.raises(ValueError, match=r"contributions 29\d.*--contribution_noise"):
        federation.build([small(total_epsilon=1.0, **published_noise)], digits())
    hidden = filtered | {"vote_epsilon": 0.02, "contribution_noise": 60.0}
    promise = {"total_epsilon": 1.0, "epsilon": 0.3}
    program = federation.build([small(**promise, **hidden)], digits())
    free = federation.build([small(**promise, mechanism="nbafl", delta=1e-3)], digits())
    charged, whole = (
        uploads_in_a_row(cell_of(one.cells, 0).allowance) for one in (program, free)
    )
    assert charged <= whole


def test_g3_rows_count_the_filter_and_none_is_amplified():
    """Rows said that nothing else leaves the client, of a ledger of uploads alone."""
    mechanism = make("dp_fedavg", cohort_size=2)
    hidden = privacy.filter_cost(
        FilterSettings(vote_epsilon=0.5, contribution_noise=20.0),
        num_participants=4,
        delta=1e-5,
    )
    spent = []
    for cost in (None, hidden, hidden._replace(epsilon_per_vote=math.inf)):
        who = {"equal_weights": True, "filter_cost": cost or FilterCost()}
        book = Book(4, mechanism, who=who)
        if cost is not None:
            book.record_pass()
        record(book, [0, 1], multiplier=1.0, epsilon=1.0, delta=1e-5, weights=0.5)
        summary = claims.summary(book.account)
        rows = summary["guarantees"]
        spent.append(summary["epsilon_spent"])
        assert {row["status"] for row in rows} == {"nominal" if cost else "proved"}
        sampled = [row for row in rows if "sampled" in row["method"]]
        assert bool(sampled) == (cost is None)
        said = " ".join(row["assumptions"] for row in rows)
        assert ("influence filter" in said) == (cost is not None)
        assert (base.NOTHING_ELSE in said) == (cost is None)
        assert ("a tally" in said) == (cost is not None)
    alone, with_filter, open_votes = spent
    for method in ("basic", "rdp", "pld"):
        assert alone[method] < with_filter[method] < open_votes[method] == math.inf


@pytest.mark.parametrize("accounting_method", ["basic", "rdp"])
@pytest.mark.parametrize("filtered", [False, True])
def test_g9_with_a_filter_the_promise_is_proved_and_the_tally_is_not(
    filtered: bool, accounting_method: str
):
    """Votes decide who uploads how often, so a tally was not known before."""
    hidden = FilterCost(1, 50.0, 0.1, 1e-5, 3, 0.01)
    changes = {"delta": 1e-3, "sensitivity": "update_clip", "num_rounds": 50}
    config, mechanism = told("nbafl", **changes)
    promise = PromiseSettings(total_epsilon=2.0, total_accounting=accounting_method)
    who = {"num_rounds": config.num_rounds}
    who |= {"filter_cost": hidden if filtered else FilterCost()}
    book = Book(3, mechanism, promise, who=who)
    if filtered:
        book.record_pass()
    z = mechanism.least_multiplier
    record(book, [0], multiplier=z, std=z, delta=1e-3, weights=1.0)
    rows = claims.summary(book.account)
    *tallies, promised = rows["guarantees"]
    assert {row["status"] for row in tallies} == {"nominal" if filtered else "proved"}
    assert promised["status"] == "proved" and promised["adversary"] == "server"
    assert promised["method"] == f"promise by {accounting_method}"
    assert promised["epsilon"] == 2.0
    uploads = 9 if filtered else 10  # of ε = .2; the filter's 1.9 hold nine
    basic = uploads * 1e-3 + (1e-5 if filtered else 0)
    assert promised["delta"] == pytest.approx(
        basic if accounting_method == "basic" else 1e-5
    )


def test_g4_a_zero_update_moves_the_count_by_one():
    """At z = .9 and σ_b = .5 the claim was 4.95 per round, the truth 10.35."""
    z, count = 0.9, 1.5
    on_sum = float(dp_fedavg.update_multiplier(z, count))
    true_precision = on_sum**-2 + 1 / count**2  # sum moves by S, count by 1
    assert composed_epsilon("gdp", true_precision, 1e-5) == pytest.approx(
        composed_epsilon("gdp", z**-2, 1e-5), rel=1e-5
    )
    with pytest.raises(ValueError, match="count_noise_std must be greater than noise"):
        make("dp_fedavg", noise_multiplier=0.9, count_noise_std=0.5, adaptive_clip=True)


@pytest.mark.parametrize("cohort", [1, 2, 5, 10])
def test_g7_a_smaller_cohort_claims_what_its_noise_gives(cohort: int):
    """The claim stayed at 5.299 where 5 of 10 clients had an exact ε of 6.57."""
    mechanism = make("dp_fedavg", noise_multiplier=1.0, delta=1e-5)
    book = Book(10, mechanism)
    z = 1.0 / math.sqrt(10)
    record(
        book,
        np.arange(cohort),
        multiplier=z,
        std=z,
        epsilon=concentrated_epsilon(1.0, 1e-5),
        delta=1e-5,
        weights=1 / cohort,
    )
    exact = composed_epsilon("gdp", 10 / cohort, 1e-5)
    basic = book.epsilon_spent("basic")
    assert basic >= exact
    assert basic == pytest.approx(
        float(concentrated_epsilon(math.sqrt(cohort / 10), 1e-5)), rel=1e-5
    )


def test_g9_noise_that_follows_a_released_r_is_counted_at_its_least():
    """21 uploads with every R at 1 were counted as 4.727; over all R it is 5.203."""
    mechanism = make("fedsva", contribution_release="randomized_response")
    least = float(mechanism.least_multiplier)
    for ratio in (0.0, 0.4, 1.0):
        info = upload(mechanism, jnp.ones((1,)), num_examples=10, ratio=ratio)[2]
        assert float(info.noise_multiplier) == pytest.approx(least, rel=1e-6)
        assert float(info.noise_std) >= least * float(info.sensitivity) * (1 - 1e-6)
        assert float(info.delta) == pytest.approx(float(mechanism.most_delta))


def test_g15_the_analytic_calibration_is_proved_at_epsilon_two():
    settings = {"sensitivity": "update_clip", "epsilon": 2.0, "delta": 1e-3}
    _, mechanism = told("nbafl", calibration="analytic", **settings)
    book = Book(2, mechanism)
    z = mechanism.least_multiplier
    record(book, [0], multiplier=z, epsilon=2.0, delta=1e-3, weights=1.0)
    rows = claims.summary(book.account)["guarantees"]
    (basic,) = [row for row in rows if row["method"] == "basic"]
    assert basic["status"] == "proved" and "classical" not in basic["assumptions"]


@pytest.mark.parametrize("method", ["rdp", "pld", "gdp"])
def test_g17_no_precision_overflows_an_accountant(method: str):
    """PLD ended with OverflowError where an upload's ε is in the hundreds."""
    before = 0.0
    for precision in (1.0, 1e2, 1e3, 1e4, 1e6, 1e9, 1e12):
        for releases in (0, 5):
            epsilon = composed_epsilon(
                method, precision, 1e-5, releases=releases, release_epsilon=0.5
            )
            assert epsilon > 0 and not math.isnan(epsilon)
        assert epsilon >= before
        before = epsilon


def test_g17_beyond_the_grid_pld_is_the_exact_gaussian_epsilon():
    for precision in (300.0, 1e6):
        exact = composed_epsilon("gdp", precision, 1e-5)
        assert exact > 100
        assert composed_epsilon("pld", precision, 1e-5) == exact


def test_g20_negative_noise_is_refused_when_the_program_is_built(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))

    def backwards(config):
        honest = registry._REGISTRY["nbafl"].factory(config)

        def update(*given, **more):
            upload, state, info = honest.update(*given, **more)
            return upload, state, info.replace(noise_multiplier=-info.noise_multiplier)

        return honest._replace(update=update)

    mechanisms.register_mechanism(
        "backwards",
        backwards,
        settings=mechanisms.mechanism_settings("nbafl"),
        summary="adds its noise with the wrong sign",
    )
    with pytest.raises(ValueError, match="noise_multiplier of an upload must be at"):
        federation.build([small(mechanism="backwards")], digits())


def test_g17_noise_beyond_float32_is_refused_when_the_program_is_built():
    """Over 4000 rounds a contraction of .5 asks for infinite noise in the first."""
    config = small(mechanism="dpa", contraction=0.5, num_rounds=4000)
    with pytest.raises(ValueError, match="of an upload must be at least 0 and finite"):
        federation.build([config], digits())


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_amplification_needs_equal_weights_of_clients_never_drawn_too(weighting: str):
    """A client of another size, not drawn so far, is another outcome of the draw."""
    config = small(
        mechanism="gaussian",
        sensitivity="update_clip",
        partition="dirichlet",
        num_hbc_clients=0,
        weighting=weighting,
    )
    program = federation.build([config], digits())
    assert program.data.min_num_examples < program.data.max_num_examples
    assert program.equal_weights == (weighting == "uniform")
    (before,) = program.accounts
    book = Book(7, before.mechanism)
    record(book, [0, 1], multiplier=1.0, epsilon=1.0, delta=0.0, weights=0.5)
    who = before.participation._asdict()
    rows = claims.summary(book.claiming(**who))["guarantees"]
    sampled = [row for row in rows if "sampled" in row["method"]]
    assert bool(sampled) == program.equal_weights


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("sensitivity", ["paper", "update_clip"])
@pytest.mark.parametrize("name", mechanisms.mechanism_names())
def test_g18_the_status_in_a_row_is_that_of_the_guarantee(
    name: str, sensitivity: str, filtered: bool
):
    changes = {"epsilon": 2.0, "delta": 1e-3, "calibration": "analytic"}
    if name in ("fedsva", "fedsdp"):
        changes = {"contribution_release": "worst_case", "epsilon": 0.5}
    _, mechanism = told(name, sensitivity=sensitivity, **changes)
    cost = FilterCost(1, 5.0, 0.8, 1e-5, 3, 0.1)
    book = Book(2, mechanism, who={"filter_cost": cost})
    z = np.min(mechanism.least_multiplier)
    record(
        book,
        [0, 1],
        multiplier=z,
        std=z,
        epsilon=np.max(mechanism.most_epsilon),
        delta=np.max(mechanism.most_delta),
        weights=0.5,
    )
    if filtered:
        book.record_pass()
    summary = claims.summary(book.account)
    status = summary["status"]
    if name == "none":
        assert status is None and not summary["guarantees"]
        return
    shown = (
        "outside observer of the final model" if mechanism.claim.central else "server"
    )
    for row in summary["guarantees"]:
        if row["adversary"] == shown and row["method"] in status:
            assert row["status"] == status[row["method"]], row
