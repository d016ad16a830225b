"""--client_epsilons: the noise and the promise of clients with an ε of their own."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import Account, client_groups
from fedsvp_jax.accounting.participation import Promised
from fedsvp_jax.federation import plan
from fedsvp_jax.federation.budget import Accounted, account_of, solve_noise
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig


class Group(NamedTuple, Generic[Accounted]):
    """Clients that are promised the same ε.

    Attributes:
      config: with `total_epsilon` theirs, and the noise solved for it.
      told: to their mechanism.
      mechanism: made from it.
      clients: ids, ascending.
    """

    config: Accounted
    told: MechanismConfig
    mechanism: Mechanism
    clients: tuple[int, ...]

    @property
    def epsilon(self) -> float:
        """Theirs over the run; NaN where nothing is promised."""
        return math.nan if (e := self.config.total_epsilon) is None else e


def groups_of(
    config: Accounted,
    epsilons: np.ndarray | None,
    **sizes: Unpack[plan.Sizes],
) -> tuple[Group[Accounted], ...]:
    """The clients by their ε, from the smallest; one group where all have the same.

    With solve=noise each group's noise is the least that keeps its own ε, otherwise all
    add the same and differ in how often they may upload.

    Without `epsilons`, (M,), all are promised `total_epsilon`, if there is one.

    Raises:
      ValueError: a promise cannot be kept, named by its clients; or with solve=noise a
        noise that the cohort shares or the server adds, which is the same for all.
    """

    def group(mine: Accounted, clients: Iterable[int]) -> Group[Accounted]:
        if mine.solve == "noise":
            mine = solve_noise(mine, **sizes)
        return Group(mine, *plan.told_and_made(mine, **sizes), tuple(clients))

    if epsilons is None:
        return (group(config, range(config.num_clients)),)
    found = []
    for epsilon in np.unique(epsilons).tolist():
        clients = np.flatnonzero(epsilons == epsilon).tolist()
        try:
            mine = dataclasses.replace(config, total_epsilon=epsilon)
            made = plan.told_and_made(mine, **sizes)[1]
            if mine.solve == "noise" and (
                made.claim.central or made.server is not None
            ):
                raise ValueError(
                    "solve must be uploads with client_epsilons for mechanism "
                    f"{config.mechanism} with noise_trust={config.noise_trust}, whose "
                    "noise is the same for all: clients then differ in how often they "
                    "upload"
                )
            found.append(group(mine, clients))
            _ = account_of(mine, found[-1].mechanism).plan.allowance
        except ValueError as error:
            who = client_groups.words(epsilon, clients)
            raise ValueError(f"client_epsilons: the {who}: {error}") from error
    return tuple(found)


def promising(
    account: Account,
    groups: Sequence[Group[Any]],
    claimed: Callable[[Mechanism], Mechanism] = lambda mechanism: mechanism,
) -> Account:
    """The account before its first round with the groups' promises, if there are any.

    `claimed` is what is left of a mechanism's claim in this run.
    """
    if not groups:
        return account
    return account.promising(
        [Promised(one.epsilon, one.clients, claimed(one.mechanism)) for one in groups]
    )


def mechanisms_by_client(
    cells: Sequence[Sequence[Group[Any]]], num_clients: int
) -> MechanismConfig | None:
    """What each client's mechanism is told, leaves (cells, M).

    None where it is the same for all.
    """
    if not cells[0] or cells[0][0].config.solve != "noise":
        return None

    def of_cell(groups: Sequence[Group[Any]]) -> MechanismConfig:
        group_of = np.zeros(num_clients, np.int32)
        for number, group in enumerate(groups):
            group_of[list(group.clients)] = number

        def by_client(*leaves: float) -> np.ndarray:
            return np.asarray(leaves, np.float32)[group_of]

        told: MechanismConfig = jax.tree.map(by_client, *(one.told for one in groups))
        return told

    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(of_cell, cells))
