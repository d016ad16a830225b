"""Sums over every client's uploads, and their ε."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

import jax
import numpy as np

from fedsvp_jax.accounting.composition import METHODS, Sums, composed_epsilon
from fedsvp_jax.accounting.noise_ends import certain_chance
from fedsvp_jax.accounting.participation import FilterCost, Participation
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.accounting.views import VIEWS, Counted, counted
from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.mechanisms import Mechanism


@dataclasses.dataclass(frozen=True)
class Recorded:
    """Sums per client of what was applied: counted, never promised.

    Per client it keeps the uploads, Σε and Σδ as claimed, and per view Σ1/z² with z the
    noise multiplier that this view faces:

        server:  z_i
        others:  sqrt(Σ_{j in H} p_j² σ_j²) / (p_i Δ_i)

    H is the cohort without the 0, 1 or h clients other than i whose noise is largest
    (colluders know their own; which ones they are is not, so the worst is taken).
    The influence filter asks the same of all clients, so its passes are kept once;
    every view counts them in full. Its bounds hold for any change of one client's data,
    so they add up with uploads under each relation that changes one client alone.
    Where uploads are made of Poisson batches ("rdp" and "pld"), a client's uploads
    count as its number of subsampled steps instead, at the least z that a view has met.
    Σ1/z² and Σε then count them as if nothing were sampled: true bounds, but large.

    Attributes:
      mechanism: whose uploads these are, and whose claim every ε is.
      participation: who uploads.
      terms: of a promise; δ of rdp and pld.
      uploads: (M,) whole.
      epsilon, delta: (M,) Σ as claimed.
      precision: (4, M) Σ1/z² by view.
      least: (4,) the least multiplier of an upload by view.
      passes: of the influence filter.
      rounds: that were recorded.
      largest_claim: ε of one upload.
      even_cohort: the cohort's size while every round had the same, equal weights and
        equal noise, which amplification by sampling needs; -1 before the first, else 0.
      tally: what made the number of rounds follow the data, so that ε is a tally.
    """

    mechanism: Mechanism
    participation: Participation
    terms: PromiseSettings
    uploads: np.ndarray
    epsilon: np.ndarray
    delta: np.ndarray
    precision: np.ndarray
    least: np.ndarray
    passes: int = 0
    rounds: int = 0
    largest_claim: float = 0.0
    even_cohort: int = -1
    tally: str = ""

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        participation: Participation,
        terms: PromiseSettings | None = None,
    ) -> Self:
        """Before the first round.

        Raises:
          ValueError: M < 1 or h < 1.
        """
        for name in ("num_clients", "colluders"):
            if getattr(participation, name) < 1:
                got = getattr(participation, name)
                raise ValueError(f"{name} must be >= 1, got {got}")
        zeros = np.zeros(participation.num_clients)
        return cls(
            mechanism,
            participation,
            terms or PromiseSettings(),
            uploads=zeros.astype(np.int64),
            epsilon=zeros,
            delta=zeros,
            precision=np.zeros((len(VIEWS), len(zeros))),
            least=np.full(len(VIEWS), math.inf),
        )

    def with_nominal(self, nominal: str) -> Self:
        """The account with one more reason why every ε is nominal; "" is none."""
        reasons = "; ".join(filter(None, (self.participation.nominal, nominal)))
        participation = self.participation._replace(nominal=reasons)
        return dataclasses.replace(self, participation=participation)

    @property
    def proved(self) -> bool:
        """Whether the mechanism's claim is proved, and nothing makes it nominal."""
        claim = self.mechanism.claim
        sees_noise = claim.central or claim.against_server
        return claim.proved and sees_noise and not self.participation.nominal

    @property
    def view(self) -> str:
        """Against whom the ε of a run is claimed."""
        return self.mechanism.claim.view

    @property
    def filter_cost(self) -> FilterCost:
        """The cost of the passes that were recorded."""
        return self.participation.filter_cost._replace(passes=self.passes)

    @property
    def release_epsilon(self) -> float:
        """ε_r that an upload spends on R; 0 where R is not told."""
        return float(self.mechanism.release_epsilon)

    def counted(self, noise: NoiseInfo, weights: Any = None) -> Counted:
        """`views.counted` of a round's uploads, in the claim's view.

        Discrete noise is counted upload by upload unless its whole numbers are summed:
        an average of uploads that were weighted in float32 is no sum on one grid.
        """
        claim = self.mechanism.claim
        if claim.concentrated and not claim.central:
            weights = None
        return counted(noise, weights, self.view, self.participation.colluders)

    def record(self, client_ids: Any, noise: NoiseInfo, weights: Any = None) -> Self:
        """The account after one more round.

        Args:
          client_ids: (K,) ids, each at most once; ids < 0 are empty places.
          noise, weights: as in `views.counted`.

        Raises:
          ValueError: an unknown or repeated id.
        """
        ids = np.asarray(client_ids, np.int64)
        filled = ids >= 0
        ids = ids[filled]
        if np.any(ids >= len(self.uploads)) or len(np.unique(ids)) != len(ids):
            raise ValueError(
                f"client_ids must be distinct and < {len(self.uploads)}, "
                f"got {ids.tolist()}"
            )
        noise = jax.tree.map(lambda leaf: np.asarray(leaf, float)[filled], noise)
        shares = None if weights is None else np.asarray(weights, float)[filled]
        multiplier, epsilon, even = self.counted(noise, shares)
        size = len(ids) if even else 0

        def add(before: np.ndarray, values: Any) -> np.ndarray:
            after = before.copy()
            after[..., ids] += values
            return after

        with np.errstate(divide="ignore"):
            precision = 1.0 / np.square(multiplier)
        return dataclasses.replace(
            self,
            uploads=add(self.uploads, 1),
            epsilon=add(self.epsilon, epsilon),
            delta=add(self.delta, noise.delta),
            precision=add(self.precision, precision),
            least=np.minimum(self.least, multiplier.min(axis=1, initial=math.inf)),
            rounds=self.rounds + 1,
            largest_claim=max(self.largest_claim, epsilon.max(initial=0.0)),
            even_cohort=size if self.even_cohort in (-1, size) else 0,
        )

    def record_pass(self) -> Self:
        """The account after one more pass of the influence filter by all clients."""
        return dataclasses.replace(self, passes=self.passes + 1)

    def epsilon_spent(
        self,
        method: str,
        delta: float | None = None,
        *,
        view: str | None = None,
    ) -> float:
        """ε of the client that has spent most.

        Args:
          method: "basic" (Σε as claimed, at `delta_spent`; the claim's view alone),
            "rdp", "pld", or "gdp" (exact where only Gaussians were sent; Poisson
            batches count as if nothing were sampled).
          delta: δ of the other methods; `target_delta` by default.
          view: one of VIEWS; the claim's by default.

        Raises:
          ValueError: an unknown method or view, or δ outside (0, 1).
        """
        view = view or self.view
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}")
        if view not in VIEWS:
            raise ValueError(f"view must be one of {', '.join(VIEWS)}, got {view!r}")
        number = VIEWS.index(view)
        maximal = _maximal_sums(self.uploads, self.precision[number], self.epsilon)
        return max(
            self.composed(
                method, Sums(*sums, float(self.least[number])), self.filter_cost, delta
            )
            for sums in maximal
        )

    def composed(
        self,
        method: str,
        sums: Sums,
        filter_cost: FilterCost,
        delta: float | None = None,
    ) -> float:
        """ε of one client with the filter's events, before a run or after it."""
        if method == "basic":
            released = sums.uploads * self.release_epsilon
            return sums.epsilon + released + filter_cost.basic_epsilon
        delta = self.terms.target_delta if delta is None else delta
        if self.mechanism.claim.concentrated:
            method = "rdp"
        responses = (
            (math.ceil(sums.uploads), self.release_epsilon),
            (filter_cost.votes, filter_cost.vote_epsilon),
        )
        subsampling, z = self.mechanism.subsampling, sums.least_multiplier
        precision = sums.precision
        steps: tuple[Any, ...] = (None,)
        if subsampling is not None and method != "gdp" and math.isfinite(z):
            steps = subsampling.steps(z, math.ceil(sums.uploads))
            precision = 0.0
        return max(
            composed_epsilon(
                method,
                filter_cost.precision + precision,
                delta,
                responses=responses,
                steps=kind,
            )
            for kind in steps
        )

    def certain_chance(self, sums: Sums, filter_cost: FilterCost) -> float:
        """The chance that the noise's end tells one client's data for certain.

        Discrete noise has no such end. See `noise_ends`.
        """
        filter_chance = certain_chance(
            filter_cost.contribution_multiplier, filter_cost.passes
        )
        subsampling, z = self.mechanism.subsampling, sums.least_multiplier
        if self.mechanism.claim.concentrated or sums.precision == 0:
            return filter_chance
        if subsampling is not None:
            steps = subsampling.steps(z, math.ceil(sums.uploads))
            return filter_chance + max(
                certain_chance(step.multiplier, step.number, step.rate)
                for step in steps
            )
        number = sums.precision * z**2 if z > 0 else 1.0
        return filter_chance + certain_chance(z, number)

    def most_spent(self, view: str) -> Sums:
        """The largest of each sum over all clients, as a view sees them."""
        number = VIEWS.index(view)
        return Sums(
            float(self.uploads.max()),
            float(self.precision[number].max()),
            float(self.epsilon.max()),
            float(self.least[number].min()),
        )

    def delta_spent(self) -> float:
        """Σδ as claimed: the δ at which basic composition's ε holds."""
        return float(np.max(self.by_client()["delta"]))

    def by_client(self) -> dict[str, np.ndarray]:
        """(M,) uploads and what basic composition counts, ε at δ, for summary.json."""
        epsilon = self.epsilon + self.uploads * self.release_epsilon
        return {
            "uploads": self.uploads,
            "epsilon": epsilon + self.filter_cost.basic_epsilon,
            "delta": self.delta + self.filter_cost.delta,
        }

    def to_json(self) -> dict[str, list[float]]:
        """The sums: what a checkpoint and a client's state file keep."""
        counts = (self.rounds, self.passes, self.even_cohort, self.largest_claim)
        return {
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
            "counts": list(map(float, counts)),
        }

    def from_json(self, saved: Mapping[str, Any]) -> Self:
        """The account of the same mechanism and participation with these sums."""
        rounds, passes, even_cohort, largest = np.asarray(saved["counts"], float)
        arrays = {name: np.asarray(saved[name], float) for name in _ARRAYS}
        return dataclasses.replace(
            self,
            uploads=arrays.pop("uploads").astype(np.int64),
            rounds=int(rounds),
            passes=int(passes),
            even_cohort=int(even_cohort),
            largest_claim=float(largest),
            **arrays,  # type: ignore[arg-type]
        )


_ARRAYS = ("uploads", "epsilon", "delta", "precision", "least")


def _maximal_sums(
    uploads: np.ndarray, precision: np.ndarray, epsilon: np.ndarray
) -> list[tuple[float, float, float]]:
    """(uploads, precision, Σε), such that no client has more of all three.

    Each number of uploads has its largest Σ1/z² and its largest Σε. They may be two
    clients', since an accounting reads one of them.
    """
    maximal: list[tuple[float, float, float]] = []
    largest = (0.0, -1.0)
    for count in np.unique(uploads)[::-1]:
        mask = uploads == count
        sums = float(precision[mask].max()), float(epsilon[mask].max())
        if sums[0] > largest[0] or sums[1] > largest[1]:
            maximal.append((float(count), *sums))
            largest = max(largest[0], sums[0]), max(largest[1], sums[1])
    return maximal
