"""A promise played without training: who may take part, and what the ledger says."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import published

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import Allowance, FilterCost, allowance, promises
from fedsvp_jax.accounting.allowance import release_epsilon
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.algorithm import cohort
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig
from fedsvp_jax.structs import NoiseInfo


def told(name: str, **changes: Any) -> tuple[MechanismConfig, Mechanism]:
    """A mechanism of the published set-up with changes, and what it was told."""
    config = mechanisms.with_analytic_multiplier(published.published(name, **changes))
    return config, mechanisms.make_mechanism(name, config)


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
    ratio = 1.0 if config.contribution_release == "worst_case" else 0.0

    @jax.jit
    def upload(round_num: jax.Array) -> NoiseInfo:
        return published.upload(
            mechanism,
            jnp.ones((1,)),
            num_examples=int(config.min_num_examples),
            ratio=ratio,
            round_num=round_num,
        )[2]

    return lambda round_num: upload(jnp.int32(round_num))


class Played:
    """Rounds of a federation under a promise, each upload at the least noise.

    Args:
      name: of the mechanism.
      promise: ε of the run and how it is counted.
      num_clients: M.
      filter_cost: of the influence filter's one pass before the first round.
      changes: to the published set-up; `cohort_size` and `num_rounds` are in it.

    Attributes:
      ledger: of the whole run.
      rounds: how many had a cohort.
    """

    def __init__(
        self,
        name: str,
        promise: PromiseSettings,
        *,
        num_clients: int,
        filter_cost: FilterCost | None = None,
        **changes: Any,
    ) -> None:
        changes["num_clients"] = num_clients
        self.config, self.mechanism = told(name, **changes)
        self._noise = _least_noise(name, tuple(sorted(changes.items())))
        self.promise = promise
        num_rounds = self.config.num_rounds
        self.allowance = allowance(
            promise,
            self.config,
            self.mechanism,
            filter_cost=filter_cost,
        )
        self.ledger = promises.new_ledger(
            self.mechanism, num_clients, keeps_stats=False
        )
        if filter_cost is not None:
            self.ledger.record_pass(filter_cost)
        spent = np.zeros(num_clients, np.int32)
        rng = np.random.default_rng(0)
        self.rounds = 0
        while self.rounds < num_rounds:
            able = cohort.may_take_part(self.allowance, spent, self.rounds)
            left = np.flatnonzero(able)
            if not len(left):
                break
            size = min(len(left), self.config.cohort_size)
            ids = rng.choice(left, size, replace=False)
            spent[ids] += self.allowance.costs[self.rounds]
            self.upload(ids)

    def upload(self, ids: np.ndarray) -> None:
        """One round's uploads, recorded as a run records them."""
        info = self._noise(self.rounds)
        multiplier = np.full(len(ids), float(info.noise_multiplier))
        self.rounds += 1
        self.ledger.record(
            ids,
            round_num=self.rounds,
            noise_multiplier=multiplier,
            noise_std=multiplier * float(info.sensitivity),
            epsilon=np.full(len(ids), float(info.epsilon)),
            delta=np.full(len(ids), float(info.delta)),
            weights=np.full(len(ids), 1 / len(ids)),
            release_epsilon=release_epsilon(self.config, self.mechanism),
        )

    def spent(self) -> float:
        """ε of the client that spent most, as the promise counts it."""
        return self.ledger.epsilon_spent(
            self.promise.total_accounting,
            self.promise.target_delta,
            view="observer" if self.mechanism.claim.central else "server",
        )
