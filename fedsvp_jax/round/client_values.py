"""Shapley values of the cohort (`--client_values`): what each upload adds.

The utility of a coalition of clients S is that of the server's next model if S alone
had uploaded, on the server's validation examples:

    U(S) = utility of w + step(sum over i in S of p_i x_i),   p_i = n_i / (n of S)

with w the broadcast model, x_i client i's upload as the server gets it, noise and all,
and U(none) the utility of w. Nothing is trained: a coalition's model is one product of
its weights with the stacked uploads. The values of a round add up to U(all) - U(none).

The values read noised uploads and examples that no client holds. So they cost no
further epsilon against whoever sees these uploads.

Source: the game of GTG-Shapley (Liu et al. 2022, arXiv 2109.02053), played within a
round.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, Model, Weights, iota
from fedsvp_jax.core.tree import where
from fedsvp_jax.models import aggregation
from fedsvp_jax.models.evaluation import Validation
from fedsvp_jax.shapley import estimators
from fedsvp_jax.shapley.coalitions import EstimationPlan, Group, planned_coalitions
from fedsvp_jax.shapley.values import ClientValueSettings

from .state import Uploads


def plan_of(
    config: ClientValueSettings, cohort_size: int, *, batch_size: int, num_parallel: int
) -> EstimationPlan:
    """The settings of the values; `num_parallel` models are tested side by side."""
    masks = planned_coalitions(config.client_values, cohort_size)
    return EstimationPlan(
        num_attributes=cohort_size,
        private_attribute=0,
        groups=(Group(1, tuple(masks)),),
        validation_batch_size=batch_size,
        estimator=config.client_values,
        num_drawn=config.client_value_models,
        utility=config.client_value_utility,
        num_parallel=num_parallel,
    )


@dataclasses.dataclass(frozen=True)
class ClientValueHook:
    """`client_value` and, of an estimate, `client_value_margin`: half its interval.

    Attributes:
      plan: of `plan_of`.
    """

    plan: EstimationPlan

    def __call__(self, model: Model, uploads: Uploads) -> dict[str, Array]:
        """(K,) float32 each; 0 for an empty place."""
        values = client_values(model, self.plan, uploads)
        measured = {"client_value": values.values}
        if values.margins is not None:
            measured["client_value_margin"] = values.margins
        return measured


def client_values(
    model: Model, plan: EstimationPlan, uploads: Uploads
) -> estimators.Values:
    """(K,) the values of the places of the cohort; 0 for a place of weight 0.

    `plan` says K "attributes", the estimator, and how coalitions are tested.
    """
    counts, examples = uploads.sizes, uploads.data.validation
    assert examples is not None
    start = uploads.state.weights
    key = prng.stream_key(uploads.key, prng.Stream.CLIENT_VALUES)
    present = counts > 0

    def model_of(coalition: Array, _: Group) -> Weights:
        weights = aggregation.client_weights(counts, coalition, uniform=False)

        def mean(leaf: Array) -> Array:
            shape = (-1, *(1,) * (leaf.ndim - 1))
            masked = jnp.where(present.reshape(shape), leaf, 0)
            exactly = jax.lax.Precision.HIGHEST
            of_leaf = weights.astype(leaf.dtype)
            return jnp.tensordot(of_leaf, masked, 1, precision=exactly)

        update, stats = jax.tree.map(mean, tuple(uploads.stacked))
        anyone = jnp.any(coalition & present)
        params = optax.apply_updates(start.params, uploads.step(update))
        return where(anyone, Weights(params, stats), start)

    count = len(examples.labels)
    validation = Validation(
        model,
        examples,
        iota(count),
        jnp.int32(count),
        batch_size=plan.validation_batch_size,
        lane_axes=(),
        kind=plan.utility,
        known_trips=True,
    )
    game = estimators.Game(
        plan=plan,
        batch_size=1,
        start=start,
        train=model_of,
        validation=validation,
        counts=counts,
        empty=validation.utility(start),
        averages=True,
    )
    _, result = estimators.ESTIMATORS[plan.estimator](game, key, plan.num_drawn)
    return result._replace(values=jnp.where(present, result.values, 0))
