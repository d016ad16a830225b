"""Two accountants that are not ours agree with every row, and no promise is broken.

Events come from what every upload says of its noise, by the definition of each
adversary's view; nothing of `fedsvp_jax.accounting` is called. They are composed by
dp-accounting's Rényi accountant, and by prv-accountant, which says how wrong it can be
(Gopi, Lee and Wutschitz 2021, arXiv 2106.02848).
"""

import functools
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant
from drawn_settings import Drawn, account
from prv_accountant import PRVAccountant
from prv_accountant import privacy_random_variables as variables

from fedsvp_jax import mechanisms

VIEWS = {
    "server": "server",
    "honest-but-curious client": "curious_client",
    "outside observer of the final model": "observer",
}
QUICK = (3, 4, 17)
ROOM = 2e-3  # of ε, relative and absolute, between two grids of privacy losses
READABLE = (0.02, 30.0)  # ε that prv-accountant composes in a second

MOST_KINDS = 6  # of Gaussians that prv-accountant composes as they are


class Seen(NamedTuple):
    """What one adversary has of one client; every kind with its number."""

    gaussians: tuple[tuple[float, int], ...] = ()  # z
    sampled: tuple[tuple[float, float, int], ...] = ()  # z and q of a step
    responses: tuple[tuple[float, int], ...] = ()  # ε of a pure release

    @property
    def precision(self) -> float:
        """Σ1/z²: by it clients are compared, and nothing is computed from it."""
        return sum(math.inf if z == 0 else n / z**2 for z, n in self.gaussians)


def seen_by(told: Drawn, view: str) -> dict[int, Seen]:
    """By client that uploaded: what the server, an observer or other clients have.

    An observer sees the average; a curious client knows its own noise, `colluders` of
    them what they know together. Which ones they are is not, so the worst is taken.
    """
    config, steps = told.config, _steps_of(told)
    known = {"observer": 0, "curious_client": 1, "colluders": config.colluders}
    gaussians: dict[int, Counter[float]] = {}
    sampled: dict[int, Counter[tuple[float, float]]] = {}
    responses: dict[int, Counter[float]] = {}
    for clients in told.rounds:
        z = np.asarray(clients.noise.noise_multiplier, float)
        ids = np.asarray(clients.client_id).tolist()
        in_sum = (
            np.asarray(clients.noise.noise_std) > 0
        ) | told.account.mechanism.claim.central
        if view != "server" and np.all(in_sum | (z == 0) | np.isinf(z)):
            p, size = np.asarray(clients.weight, float), clients.noise.sensitivity
            size = np.asarray(size, float)
            part = np.where(np.isinf(z), 0.0, p * np.where(np.isinf(z), 1.0, z) * size)
            z = np.array(
                [_averaged(part, p, size, z, i, known[view]) for i in range(len(z))]
            )
        for client, one in zip(ids, z.tolist(), strict=True):
            for table in (gaussians, sampled, responses):
                table.setdefault(client, Counter())
            if told.account.release_epsilon:
                responses[client][told.account.release_epsilon] += 1
            if math.isinf(one):
                continue
            if steps is None:
                gaussians[client][one] += 1
            else:
                rate, count, most = steps[client]
                sampled[client][one * math.sqrt(most), rate] += count
    cost = told.account.filter_cost
    for client in gaussians:
        if cost.passes:
            gaussians[client][config.contribution_noise / 2] += cost.passes
            flipped = config.vote_epsilon / 2
            responses[client][flipped] += config.num_clients - 1
    return {
        client: Seen(
            tuple(sorted(gaussians[client].items())),
            tuple(sorted((*kind, n) for kind, n in sampled[client].items())),
            tuple(sorted(responses[client].items())),
        )
        for client in gaussians
    }


def _averaged(
    part: np.ndarray, p: np.ndarray, size: np.ndarray, z: np.ndarray, i: int, known: int
) -> float:
    """z of client i in the average, without the loudest `known` others."""
    if z[i] == 0 or np.isinf(z[i]):
        return float(z[i])
    others = np.sort(np.delete(part, i) ** 2)
    left = others[: max(0, len(others) - known)]
    return math.sqrt(part[i] ** 2 + left.sum()) / (p[i] * size[i])


def _steps_of(told: Drawn) -> list[tuple[float, int, int]] | None:
    """By client: q, local steps of an upload, and those of the largest client."""
    config = told.config
    if config.sensitivity != "per_example" or config.batches != "poisson":
        return None

    def steps(size: int) -> int:
        per_epoch = max(size // config.batch_size, 1)
        return config.local_steps or config.local_epochs * per_epoch

    most = steps(int(told.sizes.max()))
    return [
        (min(1.0, config.batch_size / size), steps(size), most)
        for size in told.sizes.tolist()
    ]


def worst(seen: dict[int, Seen]) -> list[Seen]:
    """A few clients, of whom one has shown most: by number of releases, by noise."""
    by_number: dict[tuple[int, ...], Seen] = {}
    for one in seen.values():
        number = tuple(
            sum(kind[-1] for kind in kinds) for kinds in (one.responses, one.sampled)
        )
        best = by_number.get(number)
        if best is None or one.precision > best.precision:
            by_number[number] = one
    return [by_number[key] for key in sorted(by_number)[-3:]]


def _events(one: Seen, *, concentrated: bool = False) -> list[tuple[Any, int]]:
    """dp-accounting's events."""

    def gaussian(z: float) -> Any:
        if concentrated:  # of discrete noise that alone is proved
            return dp_accounting.ZCDpEvent(0.5 / z**2)
        return dp_accounting.GaussianDpEvent(z)

    def sampled(z: float, q: float) -> Any:
        event = dp_accounting.GaussianDpEvent(z)
        return dp_accounting.PoissonSampledDpEvent(q, event)

    def response(e: float) -> Any:
        return dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.exp(e)), 2)

    return [
        *((gaussian(z), n) for z, n in one.gaussians),
        *((sampled(z, q), n) for z, q, n in one.sampled),
        *((response(e), n) for e, n in one.responses),
    ]


@functools.cache
def by_rdp(one: Seen, delta: float, *, concentrated: bool = False) -> float:
    """dp-accounting's ε by RDP; of whole orders where batches are sampled."""
    orders = np.asarray(rdp_privacy_accountant.DEFAULT_RDP_ORDERS, float)
    if any(q < 1 for _, q, _ in one.sampled):
        orders = orders[orders == np.round(orders)]
    relations = dp_accounting.NeighboringRelation
    relation = relations.ADD_OR_REMOVE_ONE  # a Gaussian's z is the same in all
    if one.responses:
        relation = relations.REPLACE_SPECIAL if one.sampled else relations.REPLACE_ONE
    accountant = RdpAccountant(orders, neighboring_relation=relation)
    for event, count in _events(one, concentrated=concentrated):
        accountant.compose(event, count)
    return float(accountant.get_epsilon(delta))


@functools.cache
def by_prv(one: Seen, delta: float, about: float) -> tuple[float, float]:
    """The least and the largest ε that prv-accountant leaves possible.

    Args:
      about: what ε is expected to be; the error is a fiftieth of it, of thousands of
        steps a tenth.
    """
    kept = list(one.gaussians[:MOST_KINDS])
    rest = sum(n / z**2 for z, n in one.gaussians[MOST_KINDS:])
    kept += [(rest**-0.5, 1)] if rest else []
    parts = [(variables.GaussianMechanism(noise_multiplier=z), n) for z, n in kept]
    parts += [
        (
            variables.PoissonSubsampledGaussianMechanism(
                sampling_probability=q, noise_multiplier=z
            ),
            n,
        )
        for z, q, n in one.sampled
    ]
    parts += [(variables.PureDPMechanism(eps=e), n) for e, n in one.responses]
    accountant = PRVAccountant(
        prvs=[prv for prv, _ in parts],
        max_self_compositions=[n for _, n in parts],
        eps_error=max(about / (10 if one.sampled else 50), 1e-3),
        delta_error=delta / 1000,
    )
    low, _, high = accountant.compute_epsilon(delta, [n for _, n in parts])
    return float(low), float(high)


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
        seen = worst(seen_by(told, view))
        for one in seen:  # a client of another size is counted with the worst of all
            exact = not one.sampled or (equal and len(one.sampled) == 1)
            check(one, ours, method, delta, exact=exact and len(seen) == 1, told=told)
        if method == "pld" and READABLE[0] < ours < READABLE[1]:
            by_prv += 1
        if method == "rdp":
            theirs = max(by_rdp(o, delta, concentrated=concentrated) for o in seen)
            assert ours == pytest.approx(theirs, rel=0.02) or any(
                o.sampled for o in seen
            )
    return by_prv


def check(
    one: Seen, ours: float, method: str, delta: float, *, exact: bool, told: Any
) -> None:
    """Our ε is not below what a client has spent, nor above it where that is exact."""
    concentrated = told.account.mechanism.claim.concentrated
    theirs = by_rdp(one, delta, concentrated=concentrated)
    if method == "rdp":
        assert ours >= theirs * (1 - 1e-6)
        return
    if not READABLE[0] < ours < READABLE[1]:
        return
    room = 10 * ROOM if one.sampled else ROOM
    low, high = by_prv(one, delta, ours)
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
    for one in seen_by(told, view).values():
        low, _ = by_prv(one, config.target_delta, config.total_epsilon)
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
