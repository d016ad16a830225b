"""Two accountants that are not ours agree with every row, and no promise is broken.

Events come from what every upload says of its noise, by the definition of each
adversary's view; nothing of `fedsvp_jax.accounting` is called. They are composed by
dp-accounting's Rényi accountant, and by prv-accountant, which says how wrong it can be
(Gopi, Lee and Wutschitz 2021, arXiv 2106.02848).
"""

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant
from drawn_settings import Drawn, Uploaded, account
from prv_accountant import PRVAccountant
from prv_accountant import privacy_random_variables as variables
from scipy.special import logsumexp

from fedsvp_jax import mechanisms

VIEWS = {
    "server": "server",
    "honest-but-curious client": "curious_client",
    "outside observer of the final model": "observer",
}
QUICK = (3, 4, 14, 130, 158)  # 130: Poisson batches, a sum; 158: discrete noise
ROOM = 2e-3  # of ε, relative and absolute, between two grids of privacy losses
READABLE = (0.02, 30.0)  # ε that prv-accountant composes in a second
ORDERS = rdp_privacy_accountant.DEFAULT_RDP_ORDERS
MOST_KINDS = 6  # of Gaussians that prv-accountant composes as they are
Event = tuple[str, float, float]  # kind, z (ε of a pure release), q of a sampled step
Seen = frozenset[tuple[Event, int]]  # what one client has shown: events, their numbers


def seen_by(told: Drawn, view: str) -> set[Seen]:
    """Of the clients that uploaded: what the server, an observer or others have."""
    config, steps = told.config, _steps_of(told)
    release, cost = told.account.release_epsilon, told.account.other_costs
    found: dict[int, Counter[Event]] = defaultdict(Counter)
    for clients in told.rounds:
        multipliers = _multipliers(told, clients, view).tolist()
        for client, z in zip(clients.client_id.tolist(), multipliers, strict=True):
            mine = found[client]
            if release:
                mine["response", release, 1] += 1
            if steps is None and not math.isinf(z):
                mine["gaussian", z, 1] += 1
            elif steps is not None and not math.isinf(z):
                rate, count, most = steps[client]
                mine["sampled", z * math.sqrt(most), rate] += count
    for mine in found.values():
        if cost.passes:
            mine["gaussian", config.contribution_noise / 2, 1] += cost.passes
            mine["response", config.vote_epsilon / 2, 1] += config.num_clients - 1
    return {frozenset(mine.items()) for mine in found.values()}


def _multipliers(told: Drawn, clients: Uploaded, view: str) -> np.ndarray:
    """z of a round's uploads; in the average, without the loudest others' noise.

    An observer sees the average; a curious client knows its own noise, `colluders` of
    them what they know together. Which ones they are is not, so the worst is taken.
    Discrete noise counts upload by upload: a float32 average is no sum on one grid.
    """
    noise, p = clients.noise, np.asarray(clients.weight, float)
    z, std, size = (
        np.asarray(leaf, float)
        for leaf in (noise.noise_multiplier, noise.noise_std, noise.sensitivity)
    )
    noised = (z > 0) & np.isfinite(z)
    central = told.account.mechanism.basis.central
    in_sum = (std > 0) | central
    alone = told.config.noise_sampler == "discrete" and not central
    if view == "server" or alone or not np.all(in_sum | ~noised):
        return z
    known = {"observer": 0, "curious_client": 1, "colluders": told.config.colluders}
    kept = max(0, len(z) - 1 - known[view])
    square = (p * size * np.where(noised, z, 0)) ** 2
    left = [np.sort(np.delete(square, i))[:kept].sum() for i in range(len(z))]
    return np.divide(np.sqrt(square + left), p * size, out=z.copy(), where=noised)


def _steps_of(told: Drawn) -> list[tuple[float, int, int]] | None:
    """By client: q, local steps of an upload, and those of the largest client."""
    config = told.config
    if config.clipping != "per_example" or config.batches != "poisson":
        return None

    def steps(size: int) -> int:
        per_epoch = max(size // config.batch_size, 1)
        return config.local_steps or config.local_epochs * per_epoch

    most = steps(int(told.sizes.max()))
    return [
        (min(1.0, config.batch_size / size), steps(size), most)
        for size in told.sizes.tolist()
    ]


def kinds(one: Seen, kind: str) -> list[tuple[float, float, int]]:
    """z, q and the number of the events of a kind, in order."""
    return sorted((z, q, n) for (name, z, q), n in one if name == kind)


def worst(seen: set[Seen]) -> list[Seen]:
    """A few clients, of whom one has shown most: by number of releases, by noise."""

    def key(one: Seen) -> tuple[int, int, float]:
        responses, steps = (
            sum(n for *_, n in kinds(one, kind)) for kind in ("response", "sampled")
        )
        noised = kinds(one, "gaussian") + kinds(one, "sampled")
        precision = sum(n * (q / z) ** 2 if z else math.inf for z, q, n in noised)
        return responses, steps, precision

    by_number = {key(one)[:2]: one for one in sorted(seen, key=key)}
    return [by_number[number] for number in sorted(by_number)[-3:]]


@functools.cache
def of_a_step(z: float, q: float) -> np.ndarray:
    """Rényi divergences of a sampled Gaussian, at dp-accounting's orders.

    Its series for orders that are not whole adds up what alternates in sign, at q = .5
    a thousandth too much, or does not converge. There it is a sum over x instead:

        ln E[(1 − q + q·e^((2x − 1)/(2z²)))^α] / (α − 1), x from N(0, z²)
    """
    accountant = RdpAccountant(ORDERS)
    event = dp_accounting.GaussianDpEvent(z)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(q, event))
    curve, orders = accountant.rdp, np.asarray(ORDERS, float)
    if q < 1:
        broken = orders % 1 > 0
        order = orders[broken]
        x, step = np.linspace(-12 * z, order.max() + 12 * z, 20_000, retstep=True)
        loss = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * z**2))
        mass = math.log(step / z) - (math.log(2 * math.pi) + (x / z) ** 2) / 2
        curve[broken] = logsumexp(order[:, None] * loss + mass, axis=1) / (order - 1)
    return curve


@functools.cache
def by_rdp(one: Seen, delta: float) -> float:
    """dp-accounting's ε by RDP, with `of_a_step`."""
    relations = dp_accounting.NeighboringRelation
    relation = relations.ADD_OR_REMOVE_ONE  # a Gaussian's z is the same in all
    sampled = kinds(one, "sampled")
    if kinds(one, "response"):
        relation = relations.REPLACE_SPECIAL if sampled else relations.REPLACE_ONE
    accountant = RdpAccountant(ORDERS, neighboring_relation=relation)
    for (kind, z, _), count in one:
        event: Any = dp_accounting.GaussianDpEvent(z)
        if kind == "sampled":
            continue
        if kind == "response":
            event = dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.exp(z)), 2)
        accountant.compose(event, count)
    curve = accountant.rdp + sum(count * of_a_step(z, q) for z, q, count in sampled)
    epsilon, _ = rdp_privacy_accountant.compute_epsilon(ORDERS, curve, delta)
    return float(epsilon)


@functools.cache
def by_prv(one: Seen, delta: float, about: float) -> tuple[float, float]:
    """The least and the largest ε that prv-accountant leaves possible.

    Args:
      about: what ε is expected to be; the error is a fiftieth of it, of thousands of
        steps a tenth.
    """
    gaussians, sampled = kinds(one, "gaussian"), kinds(one, "sampled")
    rest = sum(n / z**2 for z, _, n in gaussians[MOST_KINDS:])
    kept = gaussians[:MOST_KINDS] + ([(rest**-0.5, 1, 1)] if rest else [])
    parts = [(variables.GaussianMechanism(noise_multiplier=z), n) for z, _, n in kept]
    step = variables.PoissonSubsampledGaussianMechanism
    parts += [
        (step(sampling_probability=q, noise_multiplier=z), n) for z, q, n in sampled
    ]
    parts += [
        (variables.PureDPMechanism(eps=e), n) for e, _, n in kinds(one, "response")
    ]
    accountant = PRVAccountant(
        prvs=[prv for prv, _ in parts],
        max_self_compositions=[n for _, n in parts],
        eps_error=max(about / (10 if sampled else 50), 1e-3),
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
        "epsilon": between(0.1, 20.0 if name == "gaussian" else 0.9),
        "delta": between(1e-7, 1e-3),
        "target_delta": one(1e-5, 1e-4),
        "l2_norm_clip": 1.0,
        "clipping": how,
        "relation": "add_remove" if poisson else one("replace_one", "add_remove"),
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
        settings["total_accounting"] = "pld"
        settings["solve"] = one("uploads", "noise")
    if one(True, False, False, False):
        settings |= {"influence_filter": "join", "contribution_noise": between(4, 20)}
        settings["vote_epsilon"] = between(0.02, 0.2)
    return settings


def agree(told: Drawn) -> int:
    """Compares every row; the number of rows that prv-accountant had a say in.

    No row is below what a client has spent, nor above it where that is exact: a client
    of another size is counted with the worst of all.
    """
    claim, delta, by_both = told.account.mechanism.basis, told.config.target_delta, 0
    equal = len(set(told.sizes.tolist())) == 1
    for row in told.summary["guarantees"]:
        ours, method = row["epsilon"], row["method"]
        if row["relation"] != claim.relation or not 0 < ours < math.inf:
            continue
        seen = worst(seen_by(told, VIEWS.get(row["adversary"], "colluders")))
        if method == "rdp":
            theirs = max(by_rdp(one, delta) for one in seen)
            assert ours >= theirs * (1 - 1e-6)
            assert ours <= theirs * 1.02 or any(kinds(one, "sampled") for one in seen)
        if method == "pld" and READABLE[0] < ours < READABLE[1]:
            by_both += 1
            for one in seen:
                sampled = kinds(one, "sampled")
                low, high = by_prv(one, delta, ours)
                assert low <= ours
                if len(seen) == 1 and (not sampled or (equal and len(sampled) == 1)):
                    room = 10 * ROOM if sampled else ROOM
                    assert ours <= high * (1 + room) + room
    return by_both


def promise_holds(told: Drawn) -> bool:
    """Whether a promise was made that is proved; no client has spent more."""
    config = told.config
    rows = [row for row in told.summary["guarantees"] if "promise" in row["method"]]
    if not any(row["status"] == "proved" for row in rows):
        return False
    for one in seen_by(told, told.account.view):
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
    assert accepted == len(QUICK) and rows >= 10 and promises == 1


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 340, 34))
def test_two_other_accountants_agree_on_two_hundred_drawn_settings(first: int) -> None:
    accepted, rows, _ = compared(range(first, first + 34))
    assert accepted >= 20 and rows > 20
