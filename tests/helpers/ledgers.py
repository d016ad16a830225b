"""Accounts of uploads that no run made."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import Account, Participation
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.mechanisms import Mechanism, base


class Book:
    """An account that is kept up to date, with its attributes.

    `who` are fields of `Participation`, and `claimed` of the mechanism and its claim.
    """

    def __init__(
        self,
        num_clients: int,
        mechanism: Mechanism | None = None,
        promise: PromiseSettings | None = None,
        *,
        who: dict[str, Any] | None = None,
        **claimed: Any,
    ) -> None:
        if mechanism is None:
            claim = base.Basis("replace one record", False, "a")
            mechanism = Mechanism(base.stateless, lambda *_: None, basis=claim)
        own = {name: claimed.pop(name) for name in Mechanism._fields if name in claimed}
        claim = mechanism.basis._replace(**claimed)
        mechanism = mechanism._replace(basis=claim, **own)
        taking_part = Participation(num_clients, **(who or {}))
        self.account = Account.of(mechanism, taking_part, promise)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.account, name)

    def again(self) -> "Book":
        """The same, from what a checkpoint keeps."""
        other = object.__new__(Book)
        before = Account.of(self.mechanism, self.participation, self.terms)
        other.account = before.from_arrays(self.account.arrays())
        return other

    def claiming(self, **who: Any) -> Account:
        """The account of another participation."""
        other = self.account.participation._replace(**who)
        return dataclasses.replace(self.account, participation=other)

    def alone(self, client: int) -> Account:
        """The account with what one client sent."""
        clients = self.account.clients
        sums = clients.sums[:, [client]]
        own = dataclasses.replace(clients, sums=sums, largest=sums)
        return dataclasses.replace(self.account, clients=own)

    def record_pass(self) -> None:
        """As `Account`."""
        self.account = self.account.record_pass()


def record(
    book: Book,
    ids: Sequence[int] | np.ndarray,
    *,
    multiplier: Any,
    std: Any = 1.0,
    epsilon: Any = 0.2,
    delta: Any = 0.025,
    weights: Any = None,
) -> None:
    """Records the next round; one number stands for all of its uploads."""

    def each(value: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(value, np.float64), (len(ids),))

    z, sigma = each(multiplier), each(std)
    finite = np.isfinite(z) & (z > 0)
    nothing = jnp.zeros(len(ids))
    noise = NoiseInfo(
        noise_multiplier=z,
        noise_std=sigma,
        step_noise_std=nothing,
        noise_l2=nothing,
        sensitivity=np.divide(sigma, z, out=np.zeros_like(z), where=finite),
        epsilon=each(epsilon),
        delta=each(delta),
        risk_tolerance=nothing,
        clipped=nothing,
    )
    shares = None if weights is None else each(weights)
    book.account = book.account.record(ids, noise, shares)
