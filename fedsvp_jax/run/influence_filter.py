"""The lazy-influence filter of a run (`run.session`).

Before the first round the centre trains a copy of the model on its own examples and
uses the features of that copy.

network without its last layer -> features -> the centre's last layer W_0
    -> the participants' scaled features -> contributions, votes, threshold
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core import prng
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.settings import part
from fedsvp_jax.core.structs import Array, Examples, Model, Number, Rows, Weights, iota
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import preprocessing
from fedsvp_jax.federation import Program
from fedsvp_jax.federation.plan import model_by_name
from fedsvp_jax.influence import last_layer
from fedsvp_jax.influence.lazy import Batches, Verdict, lazy_influence
from fedsvp_jax.influence.settings import FilterSettings
from fedsvp_jax.models.last_layer import backbone_of
from fedsvp_jax.round.local_training import (
    Draws,
    TrainingRates,
    TrainingRecipe,
    local_update,
)
from fedsvp_jax.round.state import ServerState

from .trainer import Trainer


def filter_clients(trainer: Trainer, state: ServerState) -> tuple[ServerState, Record]:
    """Judges all clients once, before the first round.

    Returns:
      The state with those who may take part, and `influence_filter` of the first row:
      who was rejected, why, and the cost.

    Raises:
      ValueError: they are too few for any round to have a cohort.
    """
    program, host = trainer.program, jax.device_get(state)
    start = cell_of(host.weights, 0)
    verdict: Verdict = jax.device_get(judge(program, start))
    admitted = ~verdict.rejected[None]
    if program.is_over(np.zeros_like(host.spent), admitted, 0).all():
        raise ValueError(
            f"the influence filter admits {admitted.sum()} clients, and no cohort has "
            f"the {program.cells.allowance.least_cohort[0]} that its claim needs; "
            "lower --cohort_size, or change the filter's settings"
        )
    cost = program.accounts[0].participation.other_costs._asdict()
    for name in ("bounds", "epsilon_per_bound"):  # are the schema's, not the filter's
        del cost[name]
    record = {
        "rejected": np.flatnonzero(verdict.rejected),
        "scores": verdict.scores,
        "threshold": verdict.threshold[()],
        "gap": verdict.gap[()],
        "required_gap": verdict.required_gap[()],
        "cost": cost,
    }
    return trainer.place(dataclasses.replace(host, admitted=admitted)), record


@partial(jax.jit, static_argnames=("model", "recipe"))
def _warm_up(
    model: Model,
    recipe: TrainingRecipe,
    start: Weights,
    examples: Examples,
    learning_rate: Number,
    key: Array,
) -> Weights:
    """The whole model after plain SGD on the centre's examples, in a key's order.

    Args:
      recipe: its batch size is a most, for few examples are one batch.
      start: the weights to start from.
      examples: the centre's, which no client holds.
      learning_rate: step size.
    """
    count = len(examples.labels)
    return local_update(
        model,
        recipe._replace(batch_size=min(recipe.batch_size, count)),
        TrainingRates(learning_rate, l2_norm_clip=1.0),
        start,
        Rows(examples, iota(count), jnp.ones(count, bool)),
        Draws(key),
    )


def judge(program: Program, start: Weights) -> Verdict:
    """The votes on all clients, with the server's model before the first round.

    Clients contribute with training examples and vote with validation examples.
    """
    data, config = program.data, program.configs[0]
    root, split = cell_of((program.cells.root, data.split), 0)
    key = prng.round_key(root, 0)
    assert data.warmup is not None
    trained = _warm_up(
        program.model,
        TrainingRecipe(config.batch_size, config.backbone_epochs, "mean"),
        start,
        data.warmup,
        config.learning_rate,
        prng.stream_key(key, prng.Stream.WARM_UP),
    )
    build = model_by_name(config, program.target, data.num_classes)
    backbone = backbone_of(build, preprocessing.normalize(data.warmup.inputs[:1]))
    features = last_layer.freeze(backbone, *trained)
    scaling, kernel = last_layer.fit_last_layer(
        features(data.warmup.inputs),
        data.warmup.labels,
        num_classes=data.num_classes,
        num_epochs=config.warmup_epochs,
        learning_rate=config.influence_learning_rate,
    )

    def first_examples(indices: Array, count: Array, limit: int) -> Batches:
        """The first examples of each client, with weights of 0 for the padding."""
        first = indices[:, :limit]
        valid = iota(first.shape[1])[None] < count[:, None]
        raw = features(data.examples.inputs[first.ravel()])
        x = last_layer.scaled(scaling, raw).reshape(*first.shape, -1)
        return Batches(x, data.examples.labels[first], valid.astype(jnp.float32))

    return lazy_influence(
        kernel,
        first_examples(split.train, split.num_train, config.contributor_examples),
        first_examples(split.validation, split.num_validation, config.tester_examples),
        part(FilterSettings, config),
        contribution_key=key,
        vote_key=root,
    )
