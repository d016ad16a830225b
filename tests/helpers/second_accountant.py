"""An accountant that is not the package's: a list of events, composed by libraries.

The events come from what every upload says of its noise, by the definition of each
adversary's view; nothing of `fedsvp_jax.accounting` is called. They are composed by
dp-accounting's Rényi accountant, and by prv-accountant, which says how wrong it can be
(Gopi, Lee and Wutschitz 2021, arXiv 2106.02848).
"""

import functools
import math
from collections import Counter
from typing import Any, NamedTuple

import dp_accounting
import numpy as np
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant
from drawn_settings import Drawn
from prv_accountant import PRVAccountant
from prv_accountant import privacy_random_variables as variables

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
