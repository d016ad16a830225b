"""Privacy estimation (PE): what the private attribute adds to a client's model.

FedSVA (arXiv 2503.12958v2, sec. 3.1): fine-tune a copy of the broadcast model on
every coalition of attributes, take its accuracy on the client's validation set
as utility, and read the contribution ratio R off the exact Shapley values.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax import shapley
from fedsvp_jax.algorithm import evaluation, local_training
from fedsvp_jax.algorithm.local_training import TrainingRates, TrainingRecipe
from fedsvp_jax.structs import Array, Examples, Model, Params, Split


class Estimation(NamedTuple):
    """One client's PE result."""

    utilities: Array  # (2**N,) float32, by coalition bitmask
    shapley_values: Array  # (N,) float32
    contribution_ratio: Array  # () float32: R, clipped to [0, 1]
    clipped: Array  # () bool: R left [0, 1] and was clipped
    degenerate: Array  # () bool: |sum of psi| < 1e-6, R = 1 by definition


class CoalitionPlan(NamedTuple):
    """Which coalitions are trained, in groups of one batch shape (static)."""

    groups: tuple[tuple[int, tuple[int, ...]], ...]  # (batch size, bitmasks)

    @classmethod
    def of(
        cls,
        sizes: dict[int, int],
        *,
        num_attributes: int,
        batch_size: int,
    ) -> "CoalitionPlan":
        """Groups the coalitions by batch shape; the full one comes last.

        Args:
          sizes: bitmask -> the most examples that any client holds of it.
          num_attributes: N.
          batch_size: B; a coalition that never fills B takes its own size.
        """
        full = 2**num_attributes - 1
        groups: dict[int, list[int]] = {}
        for mask in range(1, full + 1):
            if sizes[mask] > 0:
                groups.setdefault(min(batch_size, sizes[mask]), []).append(mask)
        ordered = sorted(groups.items(), key=lambda group: full in group[1])
        return cls(tuple((size, tuple(masks)) for size, masks in ordered))


def coalition_members(attributes: Array, coalition: Array | int, valid: Array) -> Array:
    """(m,) bool: the rows whose attribute belongs to the coalition's bitmask."""
    return valid & (((coalition >> attributes) & 1) == 1)


def coalition_steps(
    recipe: TrainingRecipe, plan: CoalitionPlan, examples: Examples, held: Split
) -> list[Array]:
    """SGD steps, () int32, that each training of `estimate_contribution` needs."""
    valid = jnp.arange(held.train.shape[0], dtype=jnp.int32) < held.num_train
    attributes = examples.attributes[held.train]
    return [
        recipe.local_epochs
        * local_training.steps_per_epoch(
            jnp.sum(coalition_members(attributes, mask, valid).astype(jnp.int32)),
            batch_size,
        )
        for batch_size, masks in plan.groups
        for mask in masks
    ]


def estimate_contribution(
    model: Model,
    recipe: TrainingRecipe,
    rates: TrainingRates,
    plan: CoalitionPlan,
    params: Params,
    stats: Params,
    examples: Examples,
    held: Split,
    *,
    key: Array,
    num_attributes: int,
    private_attribute: int,
    empty_utility: str,
    validation_batch_size: int,
    lane_axes: tuple[str, ...],
) -> tuple[Params, Params, Estimation]:
    """Trains every coalition, the full one last, and returns the full one's model.

    The full coalition is the local model itself, to the bit the one that a run
    without PE trains, hence 2**N - 2 extra trainings. All coalitions share one key:
    an attribute that a client holds nothing of changes no coalition, so its Shapley
    value is 0 exactly (the dummy axiom), and the others' differences carry less
    noise. A coalition without data is worth what the empty one is.

    Args:
      held: one client's row of the federation's Split.
      key: the client's key of local training.
      empty_utility: U(empty): "zero" (FedSDP's public code) or "initial", the
        broadcast model's accuracy.

    Returns:
      `(trained params, trained stats, Estimation)`.
    """
    valid = jnp.arange(held.train.shape[0], dtype=jnp.int32) < held.num_train
    attributes = examples.attributes[held.train]

    def utility(params: Params, stats: Params) -> Array:
        return evaluation.held_out_accuracy(
            model,
            params,
            stats,
            examples,
            held.validation,
            held.num_validation,
            batch_size=validation_batch_size,
            lane_axes=lane_axes,
        )

    empty = utility(params, stats) if empty_utility == "initial" else jnp.float32(0.0)
    utilities = jnp.full((2**num_attributes,), empty)
    trained = (params, stats)
    for batch_size, masks in plan.groups:
        coalitions = jnp.asarray(masks, jnp.int32)

        def train_coalition(
            lane: Array,
            carry: tuple[tuple[Params, Params], Array],
            batch_size: int = batch_size,
            coalitions: Array = coalitions,
        ) -> tuple[tuple[Params, Params], Array]:
            coalition = coalitions[lane]
            member = coalition_members(attributes, coalition, valid)
            trained = local_training.local_update(
                model,
                recipe,
                rates,
                params,
                stats,
                examples,
                held.train,
                member,
                key=key,
                batch_size=batch_size,
                lane_axes=lane_axes,
            )
            worth = jnp.where(jnp.any(member), utility(*trained), empty)
            return trained, carry[1].at[coalition].set(worth)

        trained, utilities = jax.lax.fori_loop(
            0, len(masks), train_coalition, (trained, utilities)
        )
    values = shapley.exact_shapley(utilities)
    report = shapley.contribution_ratio_with_flags(values, private_attribute)
    return *trained, Estimation(utilities, values, *report)
