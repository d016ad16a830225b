"""The audit's cases: claims, worlds and verdicts."""

import jax
import more_cases
import pytest

from experiments.attack import SETTINGS, audit, audit_cases, audit_play
from experiments.attack import audit as audit_command
from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.mechanisms import analytic_multiplier


def setting(mechanism: str, num_games: int, **changes: object) -> audit_play.Setting:
    settings = {**SETTINGS["audit"]["defaults"], "mechanism": mechanism, **changes}
    config = resolve(ExperimentConfig(**settings))
    return audit_play.make_setting(config, 10, num_games)


def prepared(
    told: audit_play.Setting, mechanism: str, worlds: str
) -> tuple[audit_cases.Case, audit_play.Prepared]:
    """The case of these worlds, the first of its sensitivities, ready to be played."""
    cases = audit_cases.cases_of(mechanism, told.config)
    case = next(case for case in cases if case.worlds == worlds)
    return case, audit_play.prepare(told, case)


@pytest.mark.hole
@pytest.mark.parametrize(
    ("mechanism", "worlds", "rounds_with_equal_noise"),
    [
        ("fedsva", "ratio", 0),
        pytest.param("fedsdp", "ratio", 0, marks=pytest.mark.slow),
        ("reestimation", "past norm", 1),
    ],
)
def test_ratio_and_past_norm_are_not_bounded_by_the_gaussian_formula(
    mechanism: str, worlds: str, rounds_with_equal_noise: int
):
    told = setting(mechanism, 40, num_rounds=2)
    for row in audit_play.rows_of(told, *prepared(told, mechanism, worlds), seed=0):
        is_equal = row["uploads"] <= rounds_with_equal_noise
        assert ("gaussian" in row["audited"]) == is_equal
        assert "clopper_pearson" in row["audited"]


def test_every_mechanism_has_the_cases_of_its_claim() -> None:
    config = setting("none", 40).config
    cases = {
        name: audit_cases.cases_of(name, config)
        for name in ("dp_fedavg", "gaussian", "nbafl", "fedsva", "reestimation")
    }
    central = ["presence", "partial cohort", "adaptive clip", "bands", "turns"]
    found = [case.worlds for case in cases["dp_fedavg"]]
    assert found == [*central, "thinned turns", "promise"]
    assert {name: len(of_name) for name, of_name in cases.items()} == {
        **{"dp_fedavg": 7, "gaussian": 24, "nbafl": 14},
        **{"fedsva": 13, "reestimation": 5},
    }
    assert cases["gaussian"][0].changes == {"epsilon": 10.0}
    assert all("calibration" in case.changes for case in cases["fedsva"])
    assert cases["reestimation"][0].worlds == "past norm"


def row(*p_values: float, claimed: bool = True) -> audit_play.Record:
    methods = ("basic", "rdp", "pld")
    return {"claimed": claimed, "p_values": dict(zip(methods, p_values, strict=True))}


def test_a_verdict_counts_all_claims_of_all_rows():
    # Six claims: the smallest p-value must be at most .05/6 = .0083.
    alone = audit.with_verdicts([row(0.009, 1, 1), row(1, 1, 1)])
    assert [one["status"] for one in alone] == ["holds", "holds"]
    both = audit.with_verdicts([row(0.008, 0.009, 1), row(1, 1, 0.04)])
    assert both[0]["beaten"] == ["basic", "rdp"] and both[0]["status"] == "VIOLATED"
    assert both[1]["beaten"] == [] and both[1]["status"] == "holds"
    # Of worlds that nothing is claimed for, nothing is violated.
    (judged,) = audit.with_verdicts([row(0, 0, 0, claimed=False)])
    assert judged["status"] == "no claim"


def test_every_release_of_a_round_has_a_case():
    config = resolve(ExperimentConfig(**SETTINGS["audit"]["defaults"]))
    worlds = {case.worlds for case in audit_command.audited_cases(["all"], config)}
    assert worlds == {
        *("granted", "record", "record left out", "record in secret batches"),
        *("client", "update", "presence", "ratio", "past norm"),
        *("private record", "private record left out", "shared noise", "colluders"),
        *("discrete noise", "two uploads", "partial cohort", "adaptive clip"),
        *("record in several secret batches", "record in summed secret batches"),
        *("unequal weights", "bands", "private record asked later"),
        *("turns", "thinned turns"),
        *("person", "person left out", "person in secret batches"),
        *("promise", "laplace", "randomized response"),
    }


@pytest.mark.parametrize(
    ("worlds", "epsilon"),
    [
        ("colluders", 4.0),  # of what 10 - 7 sharers add
        ("discrete noise", 10.0),
    ],
)
def test_the_scores_of_the_worlds_are_as_far_apart_as_is_claimed(
    worlds: str, epsilon: float
):
    square = float(analytic_multiplier(epsilon, 1e-5)) ** -2
    told = setting("gaussian", 300, num_rounds=1)
    case, (play, claims, proved) = prepared(told, "gaussian", worlds)
    assert case.clipping == "update_clip"
    scores = play(jax.random.key(0))
    gap = scores.inside[0].mean() - scores.outside[0].mean()
    assert gap == pytest.approx(square, rel=0.3)
    claimed, exact = claims(scores)[0], composed_epsilon("pld", square, 1e-5)
    assert claimed["pld"] == pytest.approx(exact, rel=1e-3) and proved


@pytest.mark.parametrize("case", [more_cases.VOTES, more_cases.CONTRIBUTION])
def test_the_filter_is_audited_near_its_claim_and_not_above(case: audit_cases.Case):
    told = setting("none", 1000, num_rounds=2)
    rows = audit_play.rows_of(told, case, more_cases.prepare(told, case), seed=1)
    for one in audit.with_verdicts(rows):
        claim = one["claims"]["pld"]
        assert 0.5 * claim < max(one["audited"].values()) < claim
        assert one["proved"] and one["status"] == "holds"
