"""Privacy estimation (PE): what the private attribute adds to a client's model.

FedSVA (arXiv 2503.12958v2, sec. 3.1): fine-tune a copy of the broadcast model on
coalitions of attributes, take its accuracy on the client's validation set as utility,
and read the contribution ratio R off the Shapley values (`estimators`).
"""

import jax.numpy as jnp

from fedsvp_jax import shapley
from fedsvp_jax.core.prng import Stream
from fedsvp_jax.core.structs import Array, Weights
from fedsvp_jax.models import evaluation
from fedsvp_jax.shapley import estimators
from fedsvp_jax.shapley.coalitions import Group

from . import local_training
from .state import Estimation, Task, rows_of


def estimate_contribution(task: Task) -> tuple[Weights, Estimation]:
    """Trains coalitions from the broadcast model: the full one's, and the values.

    The full coalition's model is the local model, with the same bits as in a run
    without PE. Beside it `exact` trains 2**N - 2 coalitions, and the others N + m with
    m = `shapley_trainings`. All share one key of training: an attribute that a client
    holds nothing of changes no coalition, so its Shapley value is 0 exactly (the dummy
    axiom), and the others' differences carry less noise. A coalition without data has
    the utility of the empty one.

    Steps have no noise and batches are shuffled, whatever the recipe says.
    """
    recipe, rates, start = task.plan.recipe, task.rates, task.state.weights
    model, examples, split, at = task.model, task.examples, task.split, task.at
    plan = task.plan.estimation
    if recipe.gradient == "per_example":
        recipe = recipe._replace(gradient="clipped_mean", places=None, local_steps=None)
    key, pairs_key = at.stream(Stream.LOCAL_TRAINING), at.stream(Stream.COALITIONS)
    validation = evaluation.Validation(
        model,
        examples,
        split.validation,
        split.num_validation,
        batch_size=plan.validation_batch_size,
        lane_axes=at.lane_axes,
        kind=plan.utility,
        known_trips=plan.known_trips,
    )
    rows = rows_of(examples, split)
    attributes = examples.attributes[rows.indices]
    counts = jnp.zeros(plan.num_attributes, jnp.int32)

    def train(coalition: Array, group: Group) -> Weights:
        return local_training.local_update(
            model,
            recipe._replace(
                most_steps=group.most_steps,
                full_batches=False,
                batch_size=group.batch_size,
            ),
            rates,
            start,
            rows_of(examples, split, coalition[attributes]),
            local_training.Draws(key),
            lane_axes=at.lane_axes,
        )

    game = estimators.Game(
        plan=plan,
        batch_size=recipe.batch_size,
        start=start,
        train=train,
        validation=validation,
        counts=counts.at[attributes].add(rows.member.astype(jnp.int32)),
        empty=validation.utility(start)
        if plan.empty_utility == "initial"
        else jnp.float32(0.0),
    )
    estimate = estimators.ESTIMATORS[plan.estimator]
    trained, result = estimate(game, pairs_key, plan.num_drawn)
    report = shapley.contribution_ratio_with_flags(
        result.values, plan.private_attribute
    )
    errors, margins = result.standard_errors, result.margins
    estimation = Estimation(result.utilities, result.values, *report, errors, margins)
    if errors is None or margins is None:
        return trained, estimation
    # The sum of the values is known without error, so R's error is the value's.
    total = jnp.abs(jnp.sum(result.values))
    share = jnp.where(report.was_degenerate, jnp.nan, 1 / total)
    return trained, estimation._replace(
        ratio_error=share * errors[plan.private_attribute],
        ratio_margin=share * margins[plan.private_attribute],
    )
