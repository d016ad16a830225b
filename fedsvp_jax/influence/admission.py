"""Who may take part: passes of the lazy-influence filter over a federation's clients.

Before the first round the centre trains a copy of the model on its own examples and
takes its features; later passes take the features of the model as it then stands. A
pass judges every client anew, the rejected ones too.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import influence, prng
from fedsvp_jax.data import preprocessing
from fedsvp_jax.influence import Batches, Verdict, centre, last_layer
from fedsvp_jax.structs import Array, Model, Params

_FEATURE_BATCH = 250


def filter_rates(config: Any) -> influence.FilterRates:
    """The filter's settings as arrays: another value is no other program."""
    flip = influence.flip_probability(config.vote_epsilon)
    return influence.FilterRates(
        local_epochs=jnp.int32(config.influence_epochs),
        learning_rate=jnp.float32(config.influence_learning_rate),
        clip=jnp.float32(config.influence_clip),
        noise_multiplier=jnp.float32(config.contribution_noise),
        flip_probability=jnp.float32(flip),
        minimum_gap=jnp.float32(config.minimum_gap),
    )


def num_passes(config: Any, rounds: int) -> int:
    """How often the filter runs in so many rounds."""
    match config.influence_filter:
        case "none":
            return 0
        case "join":
            return 1
        case _:
            return -(-rounds // config.influence_every)


def guarantees(config: Any, rounds: int) -> influence.Guarantees:
    """What the filter costs the clients of a run of so many rounds."""
    return influence.guarantees(
        num_participants=config.num_clients,
        vote_epsilon_published=config.vote_epsilon,
        noise_multiplier=config.contribution_noise,
        delta=config.target_delta,
        passes=num_passes(config, rounds),
    )


class Admission:
    """The filter of one run.

    Args:
      config: resolved settings with `influence_filter` other than none.
      federation: of one cell.
      build: number of classes -> Model.
    """

    def __init__(
        self,
        config: Any,
        federation: Any,
        build: Callable[[int], Model],
    ) -> None:
        assert federation.warmup is not None
        self._config = config
        self._warmup = federation.warmup
        self._num_classes = federation.num_classes
        self._model = build(federation.num_classes)
        example = preprocessing.normalize(self._warmup.inputs[:1])
        self._backbone = last_layer.backbone_of(build, example)
        self._root = prng.root_key(config.seed)
        split = jax.tree.map(lambda leaf: leaf[0], federation.split)
        self._examples = federation.examples
        self._train = _rows(split.train, split.num_train, config.contributor_examples)
        self._test = _rows(
            split.validation, split.num_validation, config.tester_examples
        )

    def due(self, done: int) -> bool:
        """Whether a pass comes before the round after `done` rounds."""
        return self.rounds_until_due(done) == 0

    def rounds_until_due(self, done: int) -> int:
        """Rounds from `done` on until the next pass; many where none comes."""
        if self._config.influence_filter == "join":
            return 0 if done == 0 else self._config.num_rounds
        return -done % self._config.influence_every

    def decide(self, params: Params, stats: Params, done: int) -> Verdict:
        """One pass over all clients, with the server's model after `done` rounds."""
        config, key = self._config, prng.round_key(self._root, done)
        if done == 0:
            params, stats = centre.warm_up(
                self._model,
                params,
                stats,
                self._warmup,
                num_epochs=config.backbone_epochs,
                batch_size=config.batch_size,
                learning_rate=config.learning_rate,
                key=prng.stream_key(key, prng.Stream.INFLUENCE),
            )
        frozen = last_layer.frozen_params(self._backbone, params)

        def raw(inputs: Array) -> Array:
            return last_layer.features(
                self._backbone.model, frozen, stats, inputs, batch_size=_FEATURE_BATCH
            )

        sent = centre.fit_last_layer(
            raw(self._warmup.inputs),
            self._warmup.labels,
            num_classes=self._num_classes,
            num_epochs=config.warmup_epochs,
            learning_rate=config.influence_learning_rate,
        )
        return influence.lazy_influence(
            sent.kernel,
            self._batches(raw, sent, self._train),
            self._batches(raw, sent, self._test),
            filter_rates(config),
            contribution_key=key,
            vote_key=self._root,
        )

    def _batches(
        self,
        raw: Callable[[Array], Array],
        sent: centre.LastLayer,
        rows: tuple[Array, Array],
    ) -> Batches:
        index, weights = rows
        x = last_layer.scaled(
            sent.scaling, raw(self._examples.inputs[index.reshape(-1)])
        )
        return Batches(
            x=x.reshape(*index.shape, -1),
            labels=self._examples.labels[index],
            weights=weights,
        )


def _rows(index: Array, count: Array, most: int) -> tuple[Array, Array]:
    """The first `most` of each client's rows, and 1 where it holds one."""
    kept = index[:, :most]
    held = jnp.arange(kept.shape[1], dtype=jnp.int32)[None] < count[:, None]
    return kept, held.astype(jnp.float32)


def verdict_record(verdict: Verdict) -> dict[str, Any]:
    """What metrics.jsonl keeps of a pass: who was rejected, and why."""
    return {
        "rejected": np.flatnonzero(np.asarray(verdict.rejected)),
        "scores": np.asarray(verdict.scores),
        "threshold": np.asarray(verdict.threshold)[()],
        "gap": np.asarray(verdict.high - verdict.low)[()],
        "required_gap": np.asarray(verdict.required_gap)[()],
    }


def summary(
    config: Any, corrupted: np.ndarray, admitted: np.ndarray, rounds: int
) -> dict[str, Any]:
    """What summary.json says of corruption and filter; both masks are (M,)."""
    found: dict[str, Any] = {"corrupted_clients": np.flatnonzero(corrupted)}
    if config.influence_filter != "none":
        quality = influence.filtration(~admitted, corrupted)
        found |= {
            "rejected_clients": np.flatnonzero(~admitted),
            "filtration": quality._asdict(),
            "influence_guarantees": guarantees(config, rounds)._asdict(),
        }
    return found
