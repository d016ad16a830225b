"""Who takes part in a run, and how often: what an account is of beside a mechanism."""

from typing import Any, NamedTuple

from fedsvp_jax.accounting.events import FilterCost
from fedsvp_jax.common_settings import RoundSettings
from fedsvp_jax.mechanisms import Mechanism


class Promised(NamedTuple):
    """Clients that are promised the same ε of their own (--client_epsilons)."""

    epsilon: float  # of each of them over the run
    clients: tuple[int, ...]  # ascending
    mechanism: Mechanism  # the noise of theirs


class Participation(NamedTuple):
    """Who uploads, and how often.

    Attributes:
      num_clients: M ≥ 1.
      cohort_size: K.
      num_rounds: T.
      max_uploads: of one client; None without a limit.
      colluders: h ≥ 1, clients who pool what they know (view "colluders").
      copies: of one record, at so many clients.
      filter_cost: of all planned passes of the influence filter.
      equal_weights: whether every client weighs the same in every cohort that may be
        drawn.
      nominal: why every ε is nominal whatever the mechanism claims; "" for nothing.
      assumptions: what dealing and splitting the data ask of two neighbours, in words.
    """

    num_clients: int = 1
    cohort_size: int = 1
    num_rounds: int = 1
    max_uploads: int | None = None
    colluders: int = 1
    copies: int = 1
    filter_cost: FilterCost = FilterCost()
    equal_weights: bool = False
    nominal: str = ""
    assumptions: str = ""

    @classmethod
    def of(cls, config: RoundSettings, **more: Any) -> "Participation":
        """As a run's settings say, with what they do not tell."""
        named = ("num_clients", "cohort_size", "num_rounds", "max_uploads", "colluders")
        return cls(**{name: getattr(config, name) for name in named} | more)
