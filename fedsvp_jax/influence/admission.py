"""Who may take part: passes of the lazy-influence filter over a federation's clients.

Before the first round the centre trains a copy of the model on its own examples and
uses the features of that copy. Later passes use the features of the federation's model
as it then stands. Each pass judges all clients anew, including those that an earlier
pass rejected.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.accounting import FilterCost
from fedsvp_jax.config import AccountedSettings
from fedsvp_jax.filter_settings import FilterSettings
from fedsvp_jax.influence import last_layer, pipeline, privacy
from fedsvp_jax.influence.lazy import Batches, Verdict, lazy_influence
from fedsvp_jax.influence.pipeline import Centre
from fedsvp_jax.influence.threshold import filtration
from fedsvp_jax.prng import AnyKey
from fedsvp_jax.structs import Array, Examples, Params, Split, Weights


def num_passes(settings: FilterSettings, rounds: int) -> int:
    """How often the filter runs in so many rounds."""
    match settings.influence_filter:
        case "none":
            return 0
        case "join":
            return 1
        case _:
            return -(-rounds // settings.influence_every)


def planned_cost(config: AccountedSettings) -> FilterCost:
    """What the planned passes of a run cost."""
    return privacy.filter_cost(
        config,
        num_participants=config.num_clients,
        delta=config.target_delta,
        passes=num_passes(config, config.num_rounds),
    )


class Admission:
    """The filter of one run: when it is due, and whom it rejects.

    Args:
      settings: `influence_filter` is join or every_k.
      examples: what the clients hold.
      split: which of the examples each client trains and validates on. Clients
        contribute with training examples and vote with validation examples.
      centre: its examples, and how it trains the model on them.
      num_rounds: rounds of the run.
      root: the run's root key.
    """

    def __init__(
        self,
        settings: FilterSettings,
        examples: Examples,
        split: Split,
        centre: Centre,
        *,
        num_rounds: int,
        root: AnyKey,
    ) -> None:
        self._settings, self._examples, self._centre = settings, examples, centre
        self._num_rounds, self._root = num_rounds, root
        self._backbone = centre.backbone()
        self._train = _first_examples(
            split.train, split.num_train, settings.contributor_examples
        )
        self._test = _first_examples(
            split.validation, split.num_validation, settings.tester_examples
        )

    def rounds_until_due(self, done: int) -> int:
        """Rounds from `done` on until the next pass; `num_rounds` if none comes."""
        if self._settings.influence_filter == "join":
            return 0 if done == 0 else self._num_rounds
        return -done % self._settings.influence_every

    def decide(self, params: Params, stats: Params, done: int) -> Verdict:
        """One pass over all clients, with the server's model after `done` rounds."""
        key = prng.round_key(self._root, done)
        if done == 0:
            warm_up_key = prng.stream_key(key, prng.Stream.WARM_UP)
            params, stats = self._centre.warm_up(Weights(params, stats), warm_up_key)
        inputs = pipeline.filter_inputs(
            last_layer.freeze(self._backbone, params, stats),
            self._centre.examples,
            self._held(*self._train),
            self._held(*self._test),
            self._settings,
            num_classes=self._centre.num_classes,
        )
        return lazy_influence(
            inputs.kernel,
            inputs.train,
            inputs.test,
            pipeline.filter_rates(self._settings),
            contribution_key=key,
            vote_key=self._root,
        )

    def _held(self, indices: Array, weights: Array) -> Batches:
        inputs, labels = self._examples.inputs, self._examples.labels
        return Batches(inputs[indices], labels[indices], weights)


def _first_examples(indices: Array, count: Array, most: int) -> tuple[Array, Array]:
    """Each client's first `most` indices (M, m), and weights of 0 for the padding."""
    kept = indices[:, :most]
    held = jnp.arange(kept.shape[1], dtype=jnp.int32)[None] < count[:, None]
    return kept, held.astype(jnp.float32)


def verdict_record(verdict: Verdict, cost: FilterCost) -> dict[str, Any]:
    """What metrics.jsonl keeps of a pass: who was rejected, why, and what it cost."""
    return {
        "rejected": np.flatnonzero(np.asarray(verdict.rejected)),
        "scores": np.asarray(verdict.scores),
        "threshold": np.asarray(verdict.threshold)[()],
        "gap": np.asarray(verdict.high - verdict.low)[()],
        "required_gap": np.asarray(verdict.required_gap)[()],
        "cost": cost._asdict(),
    }


def summary(
    settings: FilterSettings,
    corrupted: np.ndarray,
    admitted: np.ndarray,
    *,
    rounds: int,
    delta: float,
) -> dict[str, Any]:
    """What summary.json says of corrupted clients and of the filter.

    Args:
      settings: the filter's; with `influence_filter` none only the corrupted clients
        are told.
      corrupted: (M,) bool.
      admitted: (M,) bool: clients that the last pass did not reject.
      rounds: rounds that were run.
      delta: δ at which the filter's cost in privacy is stated.
    """
    summary: dict[str, Any] = {"corrupted_clients": np.flatnonzero(corrupted)}
    if settings.influence_filter != "none":
        told = privacy.guarantees(
            settings,
            num_participants=len(admitted),
            delta=delta,
            passes=num_passes(settings, rounds),
        )
        summary |= {
            "rejected_clients": np.flatnonzero(~admitted),
            "filtration": filtration(~admitted, corrupted)._asdict(),
            "influence_guarantees": told._asdict(),
        }
    return summary
