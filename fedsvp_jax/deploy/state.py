"""A client's state: what it has spent. `site.Site` keeps it on a disk."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from fedsvp_jax.accounting import Account
from fedsvp_jax.mechanisms import nothing_private

from .policy import Policy
from .refusal import Refused

_ROUNDING = 1 + 1e-9  # the promise and the ledger add up in another order
# The server may read it: the promise is public.
SPENT = "another upload would exceed this client's promise, its total_epsilon or "
SPENT += "max_uploads"
_MOST_TIMES = 1000  # the smallest client, where nobody named the largest


@dataclasses.dataclass(frozen=True)
class ClientState:
    """A client's memory from upload to upload.

    Attributes:
      num_examples: |D|, or |P| of a private query: what the client declared, before any
        round, as public. The noise and the weight in the average follow it.
      last_round: the last round that was charged, from 1; 0 before the first.
      spent: of `Allowance.budget`.
      seeded: whether any upload's noise was seeded, and so was none.
      memory: the mechanism's scalars of this client.
      sums: `Account.arrays` of this one client, with the upload of `last_round`.
      before: the sums without that upload until it is made, then None. Until then
        `sums` count it at the most that it may cost.
      shapes: of the arrays that the server sent first, and must send again; None before
        the first round.
    """

    num_examples: int
    last_round: int
    spent: int
    seeded: bool
    memory: dict[str, float]
    sums: dict[str, list[Any]]
    before: dict[str, list[Any]] | None = None
    shapes: list[list[int]] | None = None

    def account(self, policy: Policy) -> Account:
        """The account of all uploads so far."""
        account = policy.account.from_arrays(self.sums)
        if not self.seeded:
            return account
        return dataclasses.replace(
            account,
            participation=account.participation._replace(
                nominal="nominal: the noise was seeded"
            ),
        )

    def with_upload(self, policy: Policy, cost: Mapping[str, Any]) -> "ClientState":
        """The state whose account has one more upload, of `noise_multiplier`, ε and δ.

        Raises:
          Refused: ε of all uploads by then, as it is promised, exceeds
            --total_epsilon.
        """
        noise = dataclasses.replace(nothing_private(), **cost)
        noise = jax.tree.map(lambda leaf: np.full(1, leaf, np.float32), noise)
        account = self.account(policy).record([0], noise)
        promise = policy.promise
        if promise.total_epsilon is not None:
            spent = account.epsilon_spent(promise.total_accounting)
            if not spent <= promise.total_epsilon * _ROUNDING:
                raise Refused(SPENT)
        return dataclasses.replace(self, sums=_as_lists(account))


def new_state(policy: Policy, num_examples: int) -> ClientState:
    """The state of a client that has not uploaded yet.

    Args:
      policy: what it agrees to.
      num_examples: |D|, its training examples; of a private query |P|, 0 where it has
        no records of the private attribute. The number is public from now on. It
        decides the weight of the client and, under `paper`, the noise.

    Raises:
      ValueError: no whole number; fewer than the least that all clients agreed on, or
        more than the policy's `max_num_examples`, and 1,000 times the least.
    """
    config = policy.config
    least = float(config.min_num_examples)
    most = max(config.max_num_examples, int(_MOST_TIMES * least))
    if config.uploads_gradient:  # of which the grid has room for so many
        most = config.batch_size
    nobody = policy.is_query and num_examples == 0
    if num_examples != int(num_examples) or not (
        nobody or least <= num_examples <= most
    ):
        raise ValueError(
            "num_examples must be a whole number of training rows from "
            f"{least:g} to {most}, as all sites agreed, since noise and sums are made "
            f"for these, got {num_examples}: leave rows out, or agree anew on numbers "
            "that allow so many (--min_num_examples, --max_num_examples)"
        )
    return ClientState(
        num_examples=int(num_examples),
        last_round=0,
        spent=0,
        seeded=False,
        memory={
            name: float(value)
            for name, value in policy.mechanism.init(1).of(0).clients.items()
        },
        sums=_as_lists(policy.account),
    )


def _as_lists(account: Account) -> dict[str, list[Any]]:
    return {name: values.tolist() for name, values in account.arrays().items()}
