"""Everything that leaves a client, and what the influence filter's part of it costs."""

import math
from typing import NamedTuple


class Event(NamedTuple):
    """One kind of thing that a client sends, and how the ledger counts it."""

    name: str
    mechanism: str  # of the noise, and its parameter
    relation: str  # the change of one client's data that it hides
    seen_by: str
    counted: str  # how it enters a client's sum


EVERYONE = "all adversaries"
ANY_CHANGE = "any change of one client's data"
STATS_LEAVE = "nominal: BatchNorm's statistics leave without noise"

EVENTS = (
    Event(
        "upload",
        "Gaussian, multiplier z",
        "the mechanism's",
        "server; the others see the average that it is part of",
        "1/z², where z is the multiplier that the adversary faces",
    ),
    Event(
        "upload of Poisson batches (`--batches=poisson`)",
        "subsampled Gaussians, one in each local step",
        "one record is left out",
        "as any upload; nobody sees who was sampled",
        "its number of steps of (z, q), with the least z of the run",
    ),
    Event(
        "release of R (`laplace`, `randomized_response`)",
        "pure, ε_r (`--release_epsilon`)",
        ANY_CHANGE,
        f"{EVERYONE}: the noise of the models shows it",
        "one randomised response of ε_r with each upload",
    ),
    Event(
        "count of clipped updates (`--adaptive_clip`)",
        "Gaussian on the cohort's sum of counts",
        "the mechanism's",
        "the trusted server; the others see the clip that follows",
        "in z of the upload: sum and count are one Gaussian",
    ),
    Event(
        "contribution (influence filter)",
        "Gaussian, std `--contribution_noise` times the clip C, sensitivity 2C",
        ANY_CHANGE,
        f"{EVERYONE}: server and testers receive it",
        "4/z² with each pass",
    ),
    Event(
        "vote (influence filter)",
        "randomised response, half of `--vote_epsilon`",
        ANY_CHANGE,
        f"{EVERYONE}: the server receives it, the choice of clients follows it",
        "one randomised response for each other client; with a second pass no finite ε",
    ),
    Event(
        "statistics of BatchNorm",
        "none",
        "none",
        EVERYONE,
        "every row is nominal",
    ),
    Event(
        "statistics for preprocessing",
        "none: scales and categories are constants of the code or declared; those of "
        "a file of one's own may be taken from its records",
        f"constant or declared: {ANY_CHANGE}; else none",
        f"constant or declared: nobody; else {EVERYONE}",
        "constant or declared: 0; else every row is nominal",
    ),
)


class FilterCost(NamedTuple):
    """What passes of the influence filter cost a client, as contributor and tester.

    Contributions are made of training examples and votes of validation examples. A
    relation that replaces a whole client's data touches both, so both are counted.
    Every client takes part in every pass, so the cost is the same for all.
    """

    passes: int = 0
    contribution_multiplier: float = 0.0  # z/2: the noise's std over 2C
    contribution_epsilon: float = 0.0  # of one contribution, at contribution_delta
    contribution_delta: float = 0.0
    votes_per_pass: int = 0
    epsilon_per_vote: float = 0.0  # tight; inf for votes that are not randomised

    def times(self, clients: int) -> "FilterCost":
        """Of several clients whose data change at once."""
        return self._replace(
            contribution_multiplier=self.contribution_multiplier / math.sqrt(clients),
            contribution_epsilon=self.contribution_epsilon * clients,
            contribution_delta=self.contribution_delta * clients,
            votes_per_pass=self.votes_per_pass * clients,
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
        """How many votes one client reports."""
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
        return self.passes * self.contribution_epsilon + self.votes * self.vote_epsilon

    @property
    def delta(self) -> float:
        """Σδ of the contributions."""
        return self.passes * self.contribution_delta
