"""Two accountants that are not ours agree with every row, and no promise is broken."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import second_accountant as second
from drawn_settings import Drawn, account

from fedsvp_jax import mechanisms

pytestmark = pytest.mark.across("the account's rows against other libraries")

VIEWS = {
    "server": "server",
    "honest-but-curious client": "curious_client",
    "outside observer of the final model": "observer",
}
QUICK = (3, 4, 17)
ROOM = 2e-3  # of ε, relative and absolute, between two grids of privacy losses
READABLE = (0.02, 30.0)  # ε that prv-accountant composes in a second


def ordinary(seed: int) -> dict[str, Any]:
    """Settings whose ε is one that a run would have; many of them are refused."""
    rng = np.random.default_rng((seed, 7))

    def one(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    names = [name for name in mechanisms.mechanism_names() if name != "none"]
    name = one("gaussian", *names)
    how = one("update_clip", "weight_clip", "per_example", "attribute_records", "paper")
    how = "update_clip" if name in ("dp_fedavg", "reestimation") else how
    step = how == "per_example"
    poisson = step and one(True, True, False)
    discrete = how == "update_clip" and one(True, False, False)
    settings = {
        "mechanism": name,
        "num_clients": one(4, 12),
        "num_hbc_clients": 0,
        "cohort_size": one(2, 4),
        "num_rounds": one(1, 3, 12, 30),
        "batch_size": one(5, 20),
        "epsilon": between(0.1, 0.9),
        "delta": between(1e-7, 1e-3),
        "target_delta": one(1e-5, 1e-4),
        "l2_norm_clip": 1.0,
        "sensitivity": how,
        "relation": "add_remove" if poisson else one("replace_one", "add_remove"),
        "noise_std": between(0.1, 1.0) if step else between(1.0, 10.0),
        "noise_multiplier": between(0.7, 5.0),
        "cohorts": one("drawn", "drawn", "cyclic"),
        "weighting": one("examples", "uniform"),
        "noise_sampler": "discrete" if discrete else "gaussian",
        "contribution_release": one("worst_case", "laplace", "randomized_response"),
        "release_epsilon": between(0.02, 0.2),
    }
    if name in ("gaussian", "nbafl") and one(True, False):
        settings["noise_trust"] = "secure_aggregation"
        settings["cohort_size"], settings["colluders"] = 4, one(1, 2)
        if step:
            settings |= {"relation": "add_remove", "batches": "poisson"}
            settings["local_steps"] = 1
            poisson = False
    if poisson:
        settings |= {"batches": "poisson", "local_steps": one(1, 2, None)}
    if one(True, False, False):
        settings |= {"total_epsilon": between(0.5, 10.0)}
        settings["total_accounting"] = "rdp" if discrete else "pld"
        settings["solve"] = one("uploads", "noise")
    if one(True, False, False, False):
        settings |= {"influence_filter": "join", "contribution_noise": between(4, 20)}
        settings["vote_epsilon"] = between(0.02, 0.2)
    return settings


def agree(told: Drawn) -> int:
    """Compares every row; the number of rows that prv-accountant had a say in."""
    delta, by_prv = told.config.target_delta, 0
    equal = len(set(told.sizes.tolist())) == 1
    concentrated = told.account.mechanism.claim.concentrated
    for row in told.summary["guarantees"]:
        ours, method = row["epsilon"], row["method"]
        one_copy = row["relation"] == told.account.mechanism.claim.relation
        if not (method in ("rdp", "pld") and one_copy and 0 < ours < math.inf):
            continue
        view = VIEWS.get(row["adversary"], "colluders")
        seen = second.worst(second.seen_by(told, view))
        for one in seen:  # a client of another size is counted with the worst of all
            exact = not one.sampled or (equal and len(one.sampled) == 1)
            check(one, ours, method, delta, exact=exact and len(seen) == 1, told=told)
        if method == "pld" and READABLE[0] < ours < READABLE[1]:
            by_prv += 1
        if method == "rdp":
            theirs = max(
                second.by_rdp(o, delta, concentrated=concentrated) for o in seen
            )
            assert ours == pytest.approx(theirs, rel=0.02) or any(
                o.sampled for o in seen
            )
    return by_prv


def check(
    one: second.Seen, ours: float, method: str, delta: float, *, exact: bool, told: Any
) -> None:
    """Our ε is not below what a client has spent, nor above it where that is exact."""
    concentrated = told.account.mechanism.claim.concentrated
    theirs = second.by_rdp(one, delta, concentrated=concentrated)
    if method == "rdp":
        assert ours >= theirs * (1 - 1e-6)
        return
    if not READABLE[0] < ours < READABLE[1]:
        return
    room = 10 * ROOM if one.sampled else ROOM
    low, high = second.by_prv(one, delta, ours)
    assert low <= ours
    if exact:
        assert ours <= high * (1 + room) + room


def promise_holds(told: Drawn) -> bool:
    """Whether a promise was made that is proved; no client has spent more."""
    config = told.config
    rows = [row for row in told.summary["guarantees"] if "promise" in row["method"]]
    if not any(row["status"] == "proved" for row in rows):
        return False
    view = told.account.view
    for one in second.seen_by(told, view).values():
        low, _ = second.by_prv(one, config.target_delta, config.total_epsilon)
        assert low <= config.total_epsilon
    return True


def compared(seeds: Iterable[int]) -> tuple[int, int, int]:
    accepted = rows = promises = 0
    for seed in seeds:
        try:
            told = account(seed, ordinary(seed))
        except ValueError:
            continue
        accepted += 1
        rows += agree(told)
        promises += promise_holds(told)
    return accepted, rows, promises


def test_two_other_accountants_agree_and_no_promise_is_broken() -> None:
    accepted, rows, promises = compared(QUICK)
    assert accepted == len(QUICK) and rows >= 6 and promises == 1


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 340, 34))
def test_two_other_accountants_agree_on_two_hundred_drawn_settings(first: int) -> None:
    accepted, rows, _ = compared(range(first, first + 34))
    assert accepted >= 20 and rows > 20
