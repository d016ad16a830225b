"""A promise played without training: who may take part, and what the account says."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import published

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import (
    Account,
    Allowance,
    OtherCosts,
    Participation,
    SpendingPlan,
)
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core import prng
from fedsvp_jax.core.settings import part
from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.federation.budget import account_of
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig
from fedsvp_jax.mechanisms.noise_check import player
from fedsvp_jax.round import cohort


def told(name: str, **changes: Any) -> tuple[MechanismConfig, Mechanism]:
    """A mechanism of the published set-up with changes, and what it was told."""
    config = mechanisms.with_analytic_multiplier(published.published(name, **changes))
    return config, mechanisms.make_mechanism(name, config)


def run_epsilon(config: ResolvedConfig, told: MechanismConfig) -> float:
    """ε, as it is promised, of a client that uploads whenever it may."""
    mechanism = mechanisms.make_mechanism(config.mechanism, told)
    planned = SpendingPlan(account_of(config, mechanism))
    return planned.promised(planned.always)


def uploads_in_a_row(found: Allowance) -> int:
    """How many rounds one client may take part in that is asked in all of them."""
    spent = 0
    for uploads, cost in enumerate(np.asarray(found.costs).tolist()):
        if spent + cost > found.budget:
            return uploads
        spent += cost
    return len(found.costs)


@cache
def _least_noise(
    name: str, changes: tuple[tuple[str, Any], ...]
) -> Callable[[int], NoiseInfo]:
    """What an upload of a round says of its noise, at the R at which that is least."""
    config, mechanism = told(name, **dict(changes))
    size = np.int32(config.min_num_examples)
    ratio = np.float32(config.contribution_release == "worst_case")
    upload = jax.jit(player(mechanism))
    return lambda round_num: upload(size, ratio, np.int32(round_num))


@partial(jax.jit, static_argnums=(4, 5))
def _asked(
    allowance: Allowance,
    spent: jax.Array,
    round_num: jax.Array,
    admitted: jax.Array,
    cohort_size: int,
    cohorts: str,
) -> tuple[jax.Array, jax.Array]:
    """Who uploads in a round, and whether nobody does any more."""
    of_round = partial(
        cohort.cohort_of_round,
        *(prng.root_key(0), allowance, spent),
        cohort_size=cohort_size,
        cohorts=cohorts,
        admitted=admitted,
    )
    turns = len(spent) // cohort_size if cohorts == "cyclic" else 1
    return of_round(round_num), cohort.is_over(of_round, round_num, turns)


class Played:
    """Rounds of a federation under a promise, each upload at the least noise.

    `admitted` tells of a round, from 0, (M,) whom the influence filter does not reject;
    `changes` are those to the published set-up. Of each round `sizes` keeps how many
    uploaded.
    """

    def __init__(
        self,
        name: str,
        promise: PromiseSettings,
        *,
        num_clients: int,
        other_costs: OtherCosts | None = None,
        cohorts: str = "drawn",
        admitted: Callable[[int], np.ndarray] | None = None,
        **changes: Any,
    ) -> None:
        changes["num_clients"] = num_clients
        self.config, self.mechanism = told(name, **changes)
        self._noise = _least_noise(name, tuple(sorted(changes.items())))
        self.promise = promise
        num_rounds = self.config.num_rounds
        who = part(Participation, self.config)
        if other_costs is not None:
            who = who._replace(other_costs=other_costs)
        self.account = Account.of(self.mechanism, who, promise)
        self.allowance = SpendingPlan(self.account).allowance
        if other_costs is not None:
            self.account = self.account.record_pass()
        spent = np.zeros(num_clients, np.int32)
        everybody = np.ones(num_clients, bool)
        self.rounds, self.sizes = 0, list[int]()
        while self.rounds < num_rounds:
            mask = everybody if admitted is None else admitted(self.rounds)
            now = self.allowance, spent, np.int32(self.rounds), mask
            asked = _asked(*now, self.config.cohort_size, cohorts)
            clients, over = jax.device_get(asked)
            if over and admitted is None:
                break
            ids = clients[clients >= 0]
            spent[ids] += self.allowance.costs[self.rounds]
            self.upload(ids)

    def upload(self, ids: np.ndarray) -> None:
        """One round's uploads, recorded as a run records them."""
        info = self._noise(self.rounds)
        self.rounds += 1
        self.sizes.append(len(ids))
        each = jax.tree.map(lambda leaf: np.full(len(ids), leaf), info)
        shares = np.full(len(ids), 1 / max(len(ids), 1))
        self.account = self.account.record(ids, each, shares)

    def spent(self) -> float:
        """ε of the client that spent most, as the promise counts it."""
        return self.account.epsilon_spent(self.promise.total_accounting)
