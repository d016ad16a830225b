"""The account: sums over every client's uploads, and their ε.

Everything that asks what an upload costs asks this one value: simulator, dry run,
solver, promise (`promise.SpendingPlan`), stop, audit, page (`claims`) and deployed
client. `record` returns the account after a round.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

import jax
import numpy as np

from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.mechanisms import Mechanism

from .composition import Sums, composed_epsilon
from .noise_ends import certain_chance
from .participation import OtherCosts, Participation
from .settings import PromiseSettings
from .views import VIEWS, Counted, counted


@dataclasses.dataclass
class _ByClient:
    """All clients' sums, which `record` changes in place.

    Attributes:
      sums: (7, M) uploads, Σε, Σδ, and Σ1/z² by view.
      largest: (7, m) `_maximal` of them, by falling number of uploads.
      rounds: that they count.
    """

    sums: np.ndarray
    largest: np.ndarray
    rounds: int


@dataclasses.dataclass(frozen=True)
class Account:
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

    A round touches the sums of its cohort alone. So an account is gone on with once:
    after `record`, the account before answers no more.

    Attributes:
      mechanism: whose uploads these are, and whose claim every ε is.
      participation: who uploads.
      terms: of a promise; δ of rdp and pld.
      clients: their sums.
      least: (4,) the least multiplier of an upload by view.
      passes: of the influence filter.
      rounds: that were recorded.
      largest_claim: ε of one upload.
      even_cohort: the cohort's size while every round had the same, equal weights and
        equal noise, which amplification by sampling needs; -1 before the first, else 0.
    """

    mechanism: Mechanism
    participation: Participation
    terms: PromiseSettings
    clients: _ByClient
    least: np.ndarray
    passes: int = 0
    rounds: int = 0
    largest_claim: float = 0.0
    even_cohort: int = -1

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        participation: Participation,
        terms: PromiseSettings | None = None,
    ) -> Self:
        """The account before the first round."""
        zeros = np.zeros((_FIRST_VIEW + len(VIEWS), participation.num_clients))
        return cls(
            mechanism,
            participation,
            terms or PromiseSettings(),
            clients=_ByClient(zeros, zeros[:, :1], rounds=0),
            least=np.full(len(VIEWS), math.inf),
        )

    def _clients(self) -> _ByClient:
        """The sums, unless a later account has gone on with them."""
        if self.clients.rounds != self.rounds:
            raise RuntimeError(
                f"the account after round {self.rounds} was gone on with: take the "
                f"newest, after round {self.clients.rounds}"
            )
        return self.clients

    @property
    def uploads(self) -> np.ndarray:
        """(M,) int64: uploads of each client."""
        return self._clients().sums[0].astype(np.int64)

    @property
    def precision(self) -> np.ndarray:
        """(4, M) Σ1/z² by view."""
        return self._clients().sums[_FIRST_VIEW:]

    @property
    def proved(self) -> bool:
        """Whether the mechanism's claim is proved, and nothing makes it nominal."""
        basis = self.mechanism.basis
        sees_noise = basis.central or basis.against_server
        return basis.proved and sees_noise and not self.participation.nominal

    @property
    def view(self) -> str:
        """Against whom the ε of a run is claimed."""
        return self.mechanism.basis.view

    @property
    def other_costs(self) -> OtherCosts:
        """Costs beside uploads: recorded filter passes and bought bounds."""
        return self.participation.other_costs._replace(passes=self.passes)

    @property
    def release_epsilon(self) -> float:
        """ε_r that an upload spends on R; 0 where R is not told."""
        return float(self.mechanism.release_epsilon)

    def counted(self, noise: NoiseInfo, weights: Any = None) -> Counted:
        """`views.counted` of a round's uploads, in the claim's view.

        Discrete noise is counted upload by upload unless its whole numbers are summed:
        an average of uploads that were weighted in float32 is no sum on one grid. So
        is every upload that is not averaged: a median may show one of them as it is.
        """
        basis = self.mechanism.basis
        if not self.participation.averages_uploads or (
            basis.discrete and not basis.central
        ):
            weights = None
        return counted(noise, weights, self.view, self.participation.colluders)

    def record(self, client_ids: Any, noise: NoiseInfo, weights: Any = None) -> Self:
        """The account after one more round.

        Args:
          client_ids: (K,) ids, each at most once; ids < 0 are empty places.
          noise, weights: as in `views.counted`.

        Raises:
          ValueError: an unknown or repeated id.
          RuntimeError: another round was recorded after this account's last.
        """
        clients = self._clients()
        if not self.rounds:  # these zeros are those of every run of a program
            clients = dataclasses.replace(clients, sums=clients.sums.copy())
        num_clients = clients.sums.shape[1]
        ids = np.asarray(client_ids, np.int64)
        filled = ids >= 0
        ids = ids[filled]
        if np.any(ids >= num_clients) or len(np.unique(ids)) != len(ids):
            raise ValueError(
                f"client_ids must be distinct and < {num_clients}, got {ids.tolist()}"
            )
        noise = jax.tree.map(lambda leaf: np.asarray(leaf, float)[filled], noise)
        shares = None if weights is None else np.asarray(weights, float)[filled]
        multiplier, epsilon, even = self.counted(noise, shares)
        size = len(ids) if even else 0

        with np.errstate(divide="ignore"):
            precision = 1.0 / np.square(multiplier)
        added = np.stack([np.ones(len(ids)), epsilon, noise.delta, *precision])
        clients.sums[:, ids] += added
        clients.largest = _maximal(
            np.concatenate([clients.largest, clients.sums[:, ids]], axis=1)
        )
        clients.rounds += 1
        return dataclasses.replace(
            self,
            clients=clients,
            least=np.minimum(self.least, multiplier.min(axis=1, initial=math.inf)),
            rounds=self.rounds + 1,
            largest_claim=max(self.largest_claim, epsilon.max(initial=0.0)),
            even_cohort=size if self.even_cohort in (-1, size) else 0,
        )

    def record_pass(self) -> Self:
        """The account after one more pass of the influence filter by all clients."""
        return dataclasses.replace(self, passes=self.passes + 1)

    def epsilon_spent(
        self, method: str, delta: float | None = None, *, view: str | None = None
    ) -> float:
        """ε of the client that has spent most.

        Args:
          method: "basic" (Σε as claimed, at `delta_spent`, and inf from Σδ = 1 on; the
            claim's view alone),
            "rdp", "pld", or "gdp" (exact where only Gaussians were sent; Poisson
            batches count as if nothing were sampled).
          delta: δ of the other methods; `target_delta` by default.
          view: one of VIEWS; the claim's by default.

        Raises:
          ValueError: as `composed_epsilon`, or an unknown view.
        """
        if method == "basic" and self.delta_spent() >= 1:
            return math.inf
        sums, least = self._largest(view or self.view)
        return max(
            self.composed(
                method, Sums._make([*of_client, least]), self.other_costs, delta
            )
            for of_client in _maximal(sums).T.tolist()
        )

    def composed(
        self,
        method: str,
        sums: Sums,
        other_costs: OtherCosts,
        delta: float | None = None,
    ) -> float:
        """ε of one client, with what it spends beside uploads; planned or recorded."""
        if method == "basic":
            released = sums.uploads * self.release_epsilon
            return sums.epsilon + released + other_costs.basic_epsilon
        delta = self.terms.target_delta if delta is None else delta
        responses = (
            (math.ceil(sums.uploads), self.release_epsilon),
            (other_costs.votes, other_costs.vote_epsilon),
            (other_costs.bounds, other_costs.epsilon_per_bound),
        )
        subsampling, z = self.mechanism.subsampling, sums.least_multiplier
        precision = sums.precision
        steps: tuple[Any, ...] = (None,)
        noised = math.isfinite(z) and sums.uploads > 0
        if subsampling is not None and method != "gdp" and noised:
            steps = subsampling.steps(z, math.ceil(sums.uploads))
            precision = 0.0
        return max(
            composed_epsilon(
                method,
                other_costs.precision + precision,
                delta,
                responses=responses,
                steps=kind,
            )
            for kind in steps
        )

    def certain_chance(self, sums: Sums, other_costs: OtherCosts) -> float:
        """The chance that the noise's end tells one client's data for certain.

        Discrete noise has no such end. See `noise_ends`.
        """
        filter_chance = certain_chance(
            other_costs.contribution_multiplier, other_costs.passes
        )
        subsampling, z = self.mechanism.subsampling, sums.least_multiplier
        if self.mechanism.basis.discrete or sums.precision == 0:
            return filter_chance
        if subsampling is not None:
            return filter_chance + max(
                certain_chance(step.multiplier, step.number, step.rate)
                for step in subsampling.steps(z, math.ceil(sums.uploads))
            )
        number = sums.precision * z**2 if z > 0 else 1.0
        return filter_chance + certain_chance(z, number)

    def most_spent(self, view: str) -> Sums:
        """The largest of each sum over all clients, as a view sees them."""
        sums, least = self._largest(view)
        return Sums._make([*sums.max(axis=1).tolist(), least])

    def _largest(self, view: str) -> tuple[np.ndarray, float]:
        """(3, m) `_maximal` uploads, Σ1/z² and Σε, and the least z, as a view sees."""
        number = VIEWS.index(view)
        sums = self._clients().largest[[0, _FIRST_VIEW + number, 1]]
        return sums, float(self.least[number])

    def delta_spent(self) -> float:
        """Σδ as claimed: the δ at which basic composition's ε holds."""
        return float(self._clients().largest[2].max()) + self.other_costs.delta

    def by_client(self) -> dict[str, np.ndarray]:
        """(M,) uploads and what basic composition counts, ε at δ, for summary.json.

        From δ = 1 on ε is inf.
        """
        uploads, (_, epsilon, delta, *_) = self.uploads, self._clients().sums
        epsilon = epsilon + uploads * self.release_epsilon
        delta = delta + self.other_costs.delta
        epsilon = np.where(delta < 1, epsilon + self.other_costs.basic_epsilon, np.inf)
        return {"uploads": uploads, "epsilon": epsilon, "delta": delta}

    def arrays(self) -> dict[str, np.ndarray]:
        """The sums: what a checkpoint and a site's log keep."""
        _, epsilon, delta, *_ = sums = self._clients().sums.copy()
        counts = (self.rounds, self.passes, self.even_cohort, self.largest_claim)
        return {
            "uploads": self.uploads,
            "epsilon": epsilon,
            "delta": delta,
            "precision": sums[_FIRST_VIEW:],
            "least": self.least,
            "counts": np.asarray(counts, float),
        }

    def from_arrays(self, saved: Mapping[str, Any]) -> Self:
        """The account of the same mechanism and participation with these sums."""
        rounds, passes, even_cohort, largest = np.asarray(saved["counts"], float)
        names = ("uploads", "epsilon", "delta", "precision")
        sums = np.vstack([saved[name] for name in names]).astype(float)
        return dataclasses.replace(
            self,
            clients=_ByClient(sums, _maximal(sums), int(rounds)),
            least=np.asarray(saved["least"], float),
            rounds=int(rounds),
            passes=int(passes),
            even_cohort=int(even_cohort),
            largest_claim=float(largest),
        )


_FIRST_VIEW = 3  # of the sums by client: before it are uploads, Σε and Σδ


def _maximal(sums: np.ndarray) -> np.ndarray:
    """(R, m) of (R, n) sums: no client has more of all of them, uploads first.

    Each number of uploads has its largest of every other sum, which may be several
    clients', since an accounting reads one of them.
    """
    ordered = sums[:, np.argsort(-sums[0], kind="stable")]
    starts = np.flatnonzero(np.diff(ordered[0], prepend=math.inf))
    largest = np.maximum.reduceat(ordered, starts, axis=1)
    before = np.maximum.accumulate(largest[1:], axis=1)
    before = np.concatenate([np.full((len(before), 1), -1.0), before[:, :-1]], axis=1)
    return largest[:, (largest[1:] > before).any(axis=0)]
