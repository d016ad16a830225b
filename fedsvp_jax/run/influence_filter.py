"""The lazy-influence filter of a run (`run.session`).

Before the first round the centre trains a copy of the model on its own examples and
uses the features of that copy.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import models
from fedsvp_jax.accounting import Account
from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, Model, Weights
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import preprocessing
from fedsvp_jax.federation.budget import planned_filter_cost
from fedsvp_jax.influence import last_layer, pipeline
from fedsvp_jax.influence.lazy import Batches, Verdict, lazy_influence
from fedsvp_jax.models.last_layer import backbone_of
from fedsvp_jax.round.local_training import TrainingRecipe
from fedsvp_jax.round.state import ServerState
from fedsvp_jax.run.trainer import Trainer


class FilterHook:
    """The influence filter before the first round.

    Clients contribute with training examples and vote with validation examples.
    """

    def __init__(self, trainer: Trainer) -> None:
        program, self._trainer = trainer.program, trainer
        data, config = program.data, program.configs[0]
        assert data.warmup is not None

        def build(num_classes: int) -> Model:
            return models.make_model(
                config.model, num_classes=num_classes, kernels=program.target.platform
            )

        self._warmup, self._num_classes = data.warmup, data.num_classes
        self._model = build(data.num_classes)
        example = preprocessing.normalize(data.warmup.inputs[:1])
        self._backbone = backbone_of(build, example)
        self._recipe = TrainingRecipe(config.batch_size, config.backbone_epochs, "mean")
        self._config, self._examples = config, data.examples
        self._root = cell_of(program.cells.root, 0)
        split = cell_of(data.split, 0)
        self._train = _first_examples(
            split.train, split.num_train, config.contributor_examples
        )
        self._test = _first_examples(
            split.validation, split.num_validation, config.tester_examples
        )
        self.verdict: Verdict | None = None  # of the pass before the next round
        self.cost = planned_filter_cost(config)

    def rounds_until_due(self, done: int) -> int:
        """Rounds from `done` on until the next pass; `num_rounds` if none comes."""
        return 0 if done == 0 else self._config.num_rounds

    def decide(self, start: Weights) -> Verdict:
        """One pass over all clients, with the server's model before the first round."""
        key = prng.round_key(self._root, 0)
        trained = pipeline.warm_up(
            self._model,
            self._recipe,
            start,
            self._warmup,
            self._config.learning_rate,
            prng.stream_key(key, prng.Stream.WARM_UP),
        )
        kernel, train, test = pipeline.filter_inputs(
            last_layer.freeze(self._backbone, *trained),
            self._warmup,
            self._batches(*self._train),
            self._batches(*self._test),
            self._config,
            num_classes=self._num_classes,
        )
        return lazy_influence(
            kernel,
            train,
            test,
            pipeline.filter_rates(self._config),
            contribution_key=key,
            vote_key=self._root,
        )

    def _batches(self, indices: Array, weights: Array) -> Batches:
        inputs, labels = self._examples.inputs, self._examples.labels
        return Batches(inputs[indices], labels[indices], weights)

    def __call__(self, state: ServerState, done: int) -> ServerState:
        """Judges all clients: the state with those who may take part.

        Raises:
          ValueError: they are too few for any round to have a cohort.
        """
        host = jax.device_get(state)
        start = Weights(*cell_of((host.params, host.stats), 0))
        self.verdict = jax.device_get(self.decide(start))
        assert self.verdict is not None
        admitted = ~self.verdict.rejected[None]
        program = self._trainer.program
        if program.is_over(np.zeros_like(host.spent), admitted, done):
            least_cohort = int(program.cells.allowance.least_cohort[0])
            raise ValueError(
                f"the influence filter admits {admitted.sum()} clients, and no cohort "
                f"has the {least_cohort} that its claim needs; lower --cohort_size"
                if least_cohort > 1
                else "the influence filter admits nobody"
            )
        return self._trainer.place(dataclasses.replace(host, admitted=admitted))

    def charge(self, account: Account) -> Account:
        """The account after a pass."""
        return account.record_pass()

    def take_record(self) -> dict[str, Any]:
        """`influence_filter` of the next row: who was rejected, why, and the cost.

        None without a pass.
        """
        verdict, self.verdict = self.verdict, None
        if verdict is None:
            return {"influence_filter": None}
        record = {
            "rejected": np.flatnonzero(np.asarray(verdict.rejected)),
            "scores": np.asarray(verdict.scores),
            "threshold": np.asarray(verdict.threshold)[()],
            "gap": np.asarray(verdict.high - verdict.low)[()],
            "required_gap": np.asarray(verdict.required_gap)[()],
            "cost": self.cost._asdict(),
        }
        return {"influence_filter": record}


def _first_examples(indices: Array, count: Array, limit: int) -> tuple[Array, Array]:
    """Each client's first `limit` indices (M, m), and weights of 0 for the padding."""
    first = indices[:, :limit]
    valid = jnp.arange(first.shape[1], dtype=jnp.int32)[None] < count[:, None]
    return first, valid.astype(jnp.float32)
