"""A promise played without training: who may take part, and what the ledger says."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from published import published

from fedsvp_jax import mechanisms, prng
from fedsvp_jax.accounting import Allowance, FilterCost, Ledger, allowance, promises
from fedsvp_jax.accounting.allowance import release_epsilon
from fedsvp_jax.algorithm import cohort
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig
from fedsvp_jax.settings import PromiseSettings
from fedsvp_jax.structs import NoiseInfo


def told(name: str, **changes: Any) -> tuple[MechanismConfig, Mechanism]:
    """A mechanism of the published set-up with changes, and what it was told."""
    config = mechanisms.with_analytic_multiplier(published(name, **changes))
    return config, mechanisms.make_mechanism(name, config)


def uploads_in_a_row(found: Allowance) -> int:
    """How many rounds one client may take part in that is asked in all of them."""
    spent = 0
    for uploads, cost in enumerate(np.asarray(found.costs).tolist()):
        if spent + cost > found.budget:
            return uploads
        spent += cost
    return len(found.costs)


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
      uploads: (M,) by client.
      next_costs: what one upload more of each client would cost in the round after.
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
        self.config, self.mechanism = told(name, num_clients=num_clients, **changes)
        self.promise = promise
        num_rounds = self.config.num_rounds
        self.allowance = allowance(
            promise,
            self.config,
            self.mechanism,
            num_rounds=num_rounds,
            filter_cost=filter_cost,
        )
        self.ledger = promises.new_ledger(
            self.mechanism, num_clients, keeps_stats=False
        )
        if filter_cost is not None:
            self.ledger.record_pass(filter_cost)
        spent = np.zeros(num_clients, np.int32)
        self.rounds = 0
        while self.rounds < num_rounds:
            eligible = cohort.may_take_part(
                self.allowance, jnp.asarray(spent), self.rounds
            )
            key = prng.stream_key(
                prng.round_key(prng.root_key(0), self.rounds), prng.Stream.COHORT
            )
            ids = np.asarray(
                cohort.sample_cohort(
                    key, num_clients, self.config.cohort_size, eligible=eligible
                )
            )
            ids = ids[ids >= 0]
            if not len(ids):
                break
            spent[ids] += self.allowance.costs[self.rounds]
            self.upload(ids)

    def upload(self, ids: np.ndarray) -> None:
        """One round's uploads, recorded as the run records them."""
        info = self._info(self.rounds)
        size = len(ids)
        self.rounds += 1
        self.ledger.record(
            ids,
            round_num=self.rounds,
            noise_multiplier=np.full(size, float(info.noise_multiplier)),
            noise_std=np.full(
                size, float(info.noise_multiplier) * float(info.sensitivity)
            ),
            epsilon=np.full(size, float(info.epsilon)),
            delta=np.full(size, float(info.delta)),
            weights=np.full(size, 1 / size),
            release_epsilon=release_epsilon(self.config, self.mechanism),
        )

    @cache  # noqa: B019 - lives as long as the test
    def _info(self, round_num: int) -> NoiseInfo:
        """Of an upload at R = 0, where the noise that follows R is least."""
        return self.mechanism.update(
            {"w": jnp.ones((1,))},
            self.mechanism.init(self.config.num_clients).of(0),
            key=jax.random.key(0),
            num_examples=jnp.int32(int(self.config.min_num_examples)),
            contribution_ratio=jnp.float32(self._ratio()),
            round_num=jnp.int32(round_num),
            params={"w": jnp.ones((1,))},
        )[2]

    def _ratio(self) -> float:
        return 1.0 if self.config.contribution_release == "worst_case" else 0.0

    def spent(self) -> float:
        """ε of the client that spent most, as the promise counts it."""
        return self.ledger.epsilon_spent(
            self.promise.total_accounting,
            self.promise.target_delta,
            view="observer" if self.mechanism.claim.central else "server",
        )
