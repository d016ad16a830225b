"""The clients' participation in a run, and what it costs them beside uploads."""

import math
from typing import NamedTuple

ANY_CHANGE = "any change of one client's data"
STATS_LEAVE = "nominal: BatchNorm's statistics leave without noise"
SEED = "the noise's seed stays secret, and cannot be tried"


class OtherCosts(NamedTuple):
    """The costs of a client beside its uploads: the influence filter's passes, bounds.

    Bounds of the schema may have been bought before the run; each is pure ε-DP (P22).

    In a pass a client contributes and tests. Contributions are made of training
    examples and votes of validation examples. A relation that replaces a whole client's
    data touches both, so both are counted. Every client takes part in every pass, so
    the cost is the same for all.
    """

    passes: int = 0
    contribution_multiplier: float = 0.0  # z/2: the noise's std over 2C
    contribution_epsilon: float = 0.0  # of one contribution, at contribution_delta
    contribution_delta: float = 0.0
    votes_per_pass: int = 0
    epsilon_per_vote: float = 0.0  # tight; inf for votes that are not randomised
    bounds: int = 0  # that private quantiles bought for the schema of a table
    epsilon_per_bound: float = 0.0

    def times(self, clients: int) -> "OtherCosts":
        """The cost of several clients whose data change at once."""
        return self._replace(
            contribution_multiplier=self.contribution_multiplier / math.sqrt(clients),
            contribution_epsilon=self.contribution_epsilon * clients,
            contribution_delta=self.contribution_delta * clients,
            votes_per_pass=self.votes_per_pass * clients,
            epsilon_per_bound=self.epsilon_per_bound * clients,
        )

    @property
    def precision(self) -> float:
        """Σ1/z² of the contributions; inf without noise."""
        if self.passes == 0:
            return 0.0
        if self.contribution_multiplier == 0:
            return math.inf
        return self.passes / self.contribution_multiplier**2

    @property
    def votes(self) -> int:
        """The number of votes that one client reports."""
        return self.passes * self.votes_per_pass

    @property
    def vote_epsilon(self) -> float:
        """ε of each vote; inf where a second pass can show that a vote changed.

        The answer to a vote is remembered by its value. Two reports that differ tell
        for certain that the vote changed, which a neighbour whose vote did not change
        never causes.
        """
        if self.votes == 0:
            return 0.0
        return self.epsilon_per_vote if self.passes == 1 else math.inf

    @property
    def basic_epsilon(self) -> float:
        """ε by basic composition, at `delta`."""
        bounds = self.bounds * self.epsilon_per_bound
        votes = self.votes * self.vote_epsilon
        return self.passes * self.contribution_epsilon + votes + bounds

    @property
    def delta(self) -> float:
        """Σδ of the contributions."""
        return self.passes * self.contribution_delta


class Participation(NamedTuple):
    """The clients that upload, and how often.

    Attributes:
      num_clients: M ≥ 1.
      cohort_size: K.
      num_rounds: T.
      max_uploads: of one client; None without a limit.
      colluders: h ≥ 1, clients who pool what they know (view "colluders").
      copies: of one record, at so many clients.
      other_costs: of all planned passes of the influence filter, and of bought bounds.
      equal_weights: whether every client weighs the same in every cohort that may be
        drawn, and it is secret which are.
      averages_uploads: whether the server averages uploads, so that who sees the models
        faces the cohort's noise. Else every view counts an upload's own noise alone.
      nominal: why every ε is nominal whatever the mechanism claims; "" for nothing.
      assumptions: what dealing and splitting the data ask of two neighbours, in words.
      secret_noise: whether noise comes from entropy; else it follows from a seed.
    """

    num_clients: int = 1
    cohort_size: int = 1
    num_rounds: int = 1
    max_uploads: int | None = None
    colluders: int = 1
    copies: int = 1
    other_costs: OtherCosts = OtherCosts()
    equal_weights: bool = False
    averages_uploads: bool = True
    nominal: str = ""
    assumptions: str = ""
    secret_noise: bool = True
