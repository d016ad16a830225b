"""The ledger: what every client has really sent, as a few sums per client.

`events.EVENTS` lists what that is.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting.composition import METHODS, check_delta, composed_epsilon
from fedsvp_jax.accounting.events import FilterCost
from fedsvp_jax.mechanisms.calibration import concentrated_epsilon
from fedsvp_jax.mechanisms.subsampling import SampledSteps, Subsampling

# What an adversary sees of a client's upload: the upload itself ("server"), or the
# cohort's average, of whose noise it knows the part of 0, 1 or h other clients.
VIEWS = ("server", "observer", "curious_client", "colluders")


class Ledger:
    """Sums per client of what was applied: counted, never promised.

    Per client it keeps the uploads, Σε and Σδ as claimed, the number of releases of
    R, and per view Σ1/z² with z the noise multiplier that this view faces:

        server:  z_i
        others:  sqrt(Σ_{j in H} p_j² σ_j²) / (p_i Δ_i)

    H is the cohort without the 0, 1 or h clients other than i whose noise is largest
    (colluders know their own; which ones they are is not, so the worst is taken).
    The influence filter asks the same of all clients, so its cost is kept once; every
    view counts it in full. Its bounds hold for any change of one client's data, so
    they add up with uploads under each relation that changes one client alone.
    Where uploads are made of Poisson batches ("rdp" and "pld"), a client's uploads
    count as its number of subsampled steps instead, at the least z that a view has met.
    Σ1/z² and Σε then count them as if nothing were sampled: true bounds, but large.
    The relation is the mechanism's, and so is whether the numbers are `proved` or
    nominal: see `guarantees`.
    """

    def __init__(
        self,
        num_clients: int,
        *,
        proved: bool = False,
        colluders: int = 1,
        central: bool = False,
        concentrated: bool = False,
        subsampling: Subsampling | None = None,
    ) -> None:
        """An empty ledger.

        Args:
          num_clients: M ≥ 1.
          proved: whether the mechanism's claim is; else every number is nominal.
          colluders: h ≥ 1, clients who pool what they know (view "colluders").
          central: whether the claim is about the average. The ε of a round is then
            that of the noise that really is in the average, which a cohort smaller
            than planned has less of.
          concentrated: whether of every upload 1/(2z²)-zCDP alone is proved, not a
            Gaussian's exact ε. What "pld" and "gdp" give is then what "rdp" gives.
          subsampling: of the mechanism's Poisson batches; None without any.

        Raises:
          ValueError: M < 1 or h < 1.
        """
        if num_clients < 1:
            raise ValueError(f"num_clients must be >= 1, got {num_clients}")
        if colluders < 1:
            raise ValueError(f"colluders must be >= 1, got {colluders}")
        self.num_clients = num_clients
        self.proved = proved
        self.colluders = colluders
        self.central = central
        self.concentrated = concentrated
        self.subsampling = subsampling
        self.uploads = np.zeros(num_clients, np.int64)
        self.releases = np.zeros(num_clients, np.int64)
        self.claimed_epsilon = np.zeros(num_clients)
        self.claimed_delta = np.zeros(num_clients)
        self.precision = {view: np.zeros(num_clients) for view in VIEWS}
        self.least = dict.fromkeys(VIEWS, math.inf)  # multiplier of an upload
        self.filter_cost = FilterCost()
        self.rounds = 0
        self.release_epsilon = 0.0
        self.largest_claim = 0.0  # largest ε of one upload
        # For amplification by sampling: the cohort's size while every round had the
        # same, equal weights and equal noise (else 0), and its least multiplier.
        self.even_cohort = -1
        self.least_multiplier = math.inf

    def record(
        self,
        client_ids: Any,
        *,
        round_num: int,
        noise_multiplier: Any,
        noise_std: Any,
        epsilon: Any,
        delta: Any,
        weights: Any = None,
        release_epsilon: float = 0.0,
    ) -> None:
        """Adds one round's uploads, as NoiseInfo tells of them. Arrays are (K,).

        Args:
          client_ids: ids, each at most once; ids < 0 are empty places.
          round_num: the round, counted from 1: each exactly once, in order.
          noise_multiplier: z of the upload; 0 without noise, inf for an upload that
            is a function of public data.
          noise_std: z·Δ, the std that is counted on the upload; 0 where the noise
            went into the local steps instead. Such an upload is not hidden by the
            others' noise: every view counts it as the server does.
          epsilon: claimed per upload.
          delta: claimed per upload.
          weights: p_i of the average, for the views that see it alone. Without them
            every view counts as the server's.
          release_epsilon: ε_r that each upload spent on R.

        Raises:
          ValueError: a round out of order, an unknown or repeated id, or a
            release_epsilon that changed.
        """
        if round_num != self.rounds + 1:
            raise ValueError(f"round_num must be {self.rounds + 1}, got {round_num}")
        ids = np.asarray(client_ids, np.int64)
        taken = ids >= 0
        ids = ids[taken]
        if np.any(ids >= self.num_clients) or len(np.unique(ids)) != len(ids):
            raise ValueError(
                f"client_ids must be distinct and < {self.num_clients}, "
                f"got {ids.tolist()}"
            )
        if release_epsilon > 0:
            if self.release_epsilon not in (0.0, release_epsilon):
                raise ValueError(
                    f"release_epsilon must stay {self.release_epsilon}, "
                    f"got {release_epsilon}"
                )
            self.release_epsilon = float(release_epsilon)
            self.releases[ids] += 1
        multiplier = np.asarray(noise_multiplier, float)[taken]
        std = np.asarray(noise_std, float)[taken]
        claims = np.asarray(epsilon, float)[taken]
        deltas = np.asarray(delta, float)[taken]
        if self.central and weights is not None and len(ids):
            share = np.asarray(weights, float)[taken]
            seen = averaged_multiplier(multiplier, std, share, 0)
            claims = np.asarray(
                concentrated_epsilon(jnp.asarray(seen), jnp.asarray(deltas)), float
            )
            claims = np.where(seen > 0, claims, math.inf)
            claims = np.where(np.isinf(seen), 0.0, claims)
        self.rounds += 1
        self.uploads[ids] += 1
        self.claimed_epsilon[ids] += claims
        self.claimed_delta[ids] += deltas
        self.largest_claim = max(self.largest_claim, claims.max(initial=0.0))
        self._add("server", ids, multiplier)
        in_steps = bool(np.any((std == 0) & (multiplier > 0) & np.isfinite(multiplier)))
        if weights is None or len(ids) == 0 or in_steps:
            for view in VIEWS[1:]:
                self._add(view, ids, multiplier)
            self.even_cohort = 0
            return
        share = np.asarray(weights, float)[taken]
        for view, known in zip(VIEWS[1:], (0, 1, self.colluders), strict=True):
            averaged = averaged_multiplier(multiplier, std, share, known)
            self._add(view, ids, averaged)
            if view == "observer":
                least = float(averaged.min())
                self.least_multiplier = min(self.least_multiplier, least)
        even = len(ids) if _equal(std) and _equal(share) and len(ids) > 1 else 0
        self.even_cohort = even if self.even_cohort in (-1, even) else 0

    def _add(self, view: str, ids: np.ndarray, multiplier: np.ndarray) -> None:
        """One upload of each client, as a view sees it through its noise."""
        self.precision[view][ids] += _precision(multiplier)
        self.least[view] = min(self.least[view], multiplier.min(initial=math.inf))

    def record_pass(self, cost: FilterCost) -> None:
        """Adds one pass of the influence filter, in which every client takes part.

        Args:
          cost: of one pass; the same in all passes of a run.
        """
        self.filter_cost = cost._replace(passes=self.filter_cost.passes + 1)

    def epsilon_spent(
        self,
        method: str,
        delta: float,
        client_id: int | None = None,
        *,
        view: str = "server",
    ) -> float:
        """ε that a client has spent; the largest of all clients' by default.

        Args:
          method: "basic" (Σε as claimed, at Σδ: see `delta_spent`; view "server"
            alone), "rdp", "pld", or "gdp" (exact where only Gaussians were sent;
            Poisson batches count as if nothing were sampled).
          delta: δ of the other methods, in (0, 1).
          client_id: whose; None for the largest.
          view: one of VIEWS.

        Raises:
          ValueError: an unknown method, view or client, or δ outside (0, 1).
        """
        check_delta(delta)
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}")
        if view not in VIEWS:
            raise ValueError(f"view must be one of {', '.join(VIEWS)}, got {view!r}")
        chosen = self._chosen(client_id)
        if method == "basic":
            release = self.releases[chosen] * self.release_epsilon
            claimed = float(np.max(self.claimed_epsilon[chosen] + release))
            return claimed + self.filter_cost.basic_epsilon
        if self.concentrated:
            method = "rdp"
        sampled = method != "gdp" and self.subsampling is not None
        precision = self.filter_cost.precision + np.where(
            sampled, 0, self.precision[view][chosen]
        )
        releases = self.releases[chosen]
        return max(
            composed_epsilon(
                method,
                float(np.max(precision, where=releases == count, initial=0)),
                delta,
                releases=int(count),
                release_epsilon=self.release_epsilon,
                votes=self.filter_cost.votes,
                vote_epsilon=self.filter_cost.vote_epsilon,
                steps=steps,
            )
            for count in np.unique(releases)
            for steps in (self._steps(view, chosen) if sampled else (None,))
        )

    def _steps(self, view: str, chosen: slice) -> tuple[SampledSteps | None, ...]:
        """The Poisson batches of the client that uploaded most often, by kind."""
        uploads = int(self.uploads[chosen].max())
        if self.subsampling is None or math.isinf(self.least[view]):
            return (None,)
        return self.subsampling.steps(self.least[view], uploads)

    def delta_spent(self, client_id: int | None = None) -> float:
        """Σδ as claimed: the δ at which basic composition's ε holds."""
        claimed = float(np.max(self.claimed_delta[self._chosen(client_id)]))
        return claimed + self.filter_cost.delta

    def _chosen(self, client_id: int | None) -> slice:
        if client_id is None:
            return slice(None)
        if not 0 <= client_id < self.num_clients:
            raise ValueError(
                f"client_id must be in [0, {self.num_clients}), got {client_id}"
            )
        return slice(client_id, client_id + 1)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything, as numpy arrays of (M,) or () for a checkpoint."""
        scalars = (
            self.colluders,
            self.rounds,
            self.release_epsilon,
            self.largest_claim,
            self.even_cohort,
            self.least_multiplier,
            *self.filter_cost,
            *self.least.values(),
        )
        return {
            "uploads": self.uploads.copy(),
            "releases": self.releases.copy(),
            "claimed_epsilon": self.claimed_epsilon.copy(),
            "claimed_delta": self.claimed_delta.copy(),
            **{f"precision_{view}": self.precision[view].copy() for view in VIEWS},
            "scalars": np.asarray(scalars, np.float64),
        }

    @classmethod
    def from_state_dict(
        cls,
        state: dict[str, Any],
        *,
        proved: bool = False,
        central: bool = False,
        concentrated: bool = False,
        subsampling: Subsampling | None = None,
    ) -> "Ledger":
        """The ledger that `state_dict` was taken from, of the same mechanism."""
        scalars = np.asarray(state["scalars"], np.float64).tolist()
        colluders = int(scalars[0])
        ledger = cls(
            len(state["uploads"]),
            proved=proved,
            colluders=colluders,
            central=central,
            concentrated=concentrated,
            subsampling=subsampling,
        )
        ledger.uploads = np.array(state["uploads"], np.int64)
        ledger.releases = np.array(state["releases"], np.int64)
        ledger.claimed_epsilon = np.array(state["claimed_epsilon"], np.float64)
        ledger.claimed_delta = np.array(state["claimed_delta"], np.float64)
        for view in VIEWS:
            ledger.precision[view] = np.array(state[f"precision_{view}"], np.float64)
        ledger.rounds, ledger.even_cohort = int(scalars[1]), int(scalars[4])
        ledger.release_epsilon, ledger.largest_claim = scalars[2], scalars[3]
        ledger.least_multiplier = scalars[5]
        passes, multiplier, epsilon, delta, votes, vote_epsilon = scalars[6:12]
        ledger.least = dict(zip(VIEWS, scalars[12:], strict=True))
        ledger.filter_cost = FilterCost(
            int(passes), multiplier, epsilon, delta, int(votes), vote_epsilon
        )
        return ledger


def averaged_multiplier(
    noise_multiplier: np.ndarray, noise_std: np.ndarray, weights: np.ndarray, known: int
) -> np.ndarray:
    """(K,) z_i of the average, when the noise of `known` others is known.

        z_i = sqrt(Σ_{j in H} p_j² σ_j²) / (p_i Δ_i), Δ_i = σ_i / z_i

    H leaves out the `known` clients other than i of the largest p_j σ_j; i's own
    noise always counts, so z_i is at least the upload's. 0 where the upload had no
    noise, and where the client weighs nothing or z_i is inf, inf.
    """
    variance = np.square(weights * noise_std)
    order = np.argsort(-variance, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    top = np.concatenate([[0.0], np.cumsum(variance[order])])
    count = np.minimum(known, len(order) - 1)
    # Among the others of i the largest `count` are the first ones of all, with the
    # next one in i's place when i is itself among them.
    within = rank < count
    removed = np.where(
        within, top[np.minimum(count + 1, len(order))] - variance, top[count]
    )
    left = np.maximum(variance.sum() - removed, variance)
    own = weights * noise_std
    ratio = np.sqrt(left / np.where(own > 0, np.square(own), 1.0))
    hidden = (weights > 0) & np.isfinite(noise_multiplier)
    averaged = np.where(own > 0, np.where(hidden, noise_multiplier, 0.0) * ratio, 0.0)
    return np.where(hidden, averaged, np.inf)


def _precision(noise_multiplier: np.ndarray) -> np.ndarray:
    """1/z², inf at z = 0."""
    noisy = noise_multiplier > 0
    safe = np.where(noisy, noise_multiplier, 1.0)
    return np.where(noisy, 1.0 / np.square(safe), np.inf)


def _equal(values: np.ndarray) -> bool:
    return bool(np.all(values == values[0]))
