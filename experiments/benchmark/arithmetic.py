"""FLOPs of a round, counted from the products of the traced program."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import jaxprs_in_params
from jax.interpreters import partial_eval

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, Rows, Weights
from fedsvp_jax.round import local_training
from fedsvp_jax.run.trainer import Trainer


def product_flops(function: Callable[..., Any], *args: Any) -> int:
    """FLOPs of matrix products and convolutions; a multiply-add counts as two.

        sum over dot_general of 2 * (elements of the result) * (length contracted)
        sum over convolutions of 2 * (elements of the result) * (weights of one feature)

    Zeros that a convolution's gradient puts between the elements of a strided result
    are no factors; those at an image's border are. All is counted in the jaxpr after
    unused products were removed. The body of a `scan` counts as often as it runs; the
    body of a `while`, whose number of trips is data, counts once.

    Args:
      function: traceable.
      args: arrays or their `jax.ShapeDtypeStruct`s.
    """
    return _count(jax.make_jaxpr(function)(*args).jaxpr)


def _count(jaxpr: Any) -> int:
    jaxpr, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    total = 0
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name == "dot_general":
            (contracted, _), _ = params["dimension_numbers"]
            lhs, result = equation.invars[0].aval.shape, equation.outvars[0].aval
            total += 2 * result.size * math.prod(lhs[axis] for axis in contracted)
        if name == "conv_general_dilated":
            kernel, result = equation.invars[1].aval, equation.outvars[0].aval
            features = kernel.shape[params["dimension_numbers"].rhs_spec[0]]
            zeros = math.prod(params["lhs_dilation"])  # of so many elements one is none
            total += 2 * result.size * kernel.size // (features * zeros)
        trips = params["length"] if name == "scan" else 1
        total += trips * sum(map(_count, jaxprs_in_params(params)))
    return total


def step_flops(trainer: Trainer, batch_size: int) -> int:
    """FLOPs of one training step, by the kernels of the trainer's target.

    On a CPU convolutions of many channels are Winograd's in float32 (`winograd.pays`).
    """
    program = trainer.program
    # Where the target's loop has a known number of steps it is a scan, whose length
    # would count.
    recipe = program.plan.recipe._replace(
        batch_size=batch_size, most_steps=1, full_batches=False
    )
    rows = jax.ShapeDtypeStruct((batch_size,), jnp.int32)
    rate = jax.ShapeDtypeStruct((), jnp.float32)

    def update(start: Weights, rate: Array, rows: Array) -> Weights:
        return local_training.local_update(
            program.model,
            recipe,
            local_training.TrainingRates(rate, rate, rate, rate),
            start,
            Rows(program.data.examples, rows, rows >= 0),
            local_training.Draws(prng.root_key(0)),
        )

    return product_flops(update, program.model.shapes(program.data.example), rate, rows)


def coalition_steps(trainer: Trainer) -> dict[int, tuple[int, int]]:
    """Coalition bitmask -> (batch size, steps) of one client's training.

    Without privacy estimation only the full coalition is trained. The counts are those
    of the client with the most examples; in the workloads all clients hold as many.
    No workload draws random coalitions.
    """
    program = trainer.program
    plan, sizes = program.plan, program.data.counts.coalition_sizes
    full = 2**plan.estimation.num_attributes - 1
    return {
        mask: (
            group.batch_size,
            plan.recipe.local_epochs
            * int(
                local_training.steps_per_epoch(jnp.int32(sizes[mask]), group.batch_size)
            ),
        )
        for group in plan.estimation.groups
        for mask in group.masks
        if program.mechanism.needs_contribution or mask == full
    }


def round_flops(trainer: Trainer) -> tuple[int, int]:
    """FLOPs of a round's matrix products, over the whole cohort.

        K * sum over coalitions of (steps * FLOPs per step + batches * FLOPs per batch)

    The batches of validation examples are computed only if privacy is estimated.

    Returns:
      `(training, estimation)`: of the local models, as in FedAvg; of the other
      coalitions' models and of all utilities.
    """
    program = trainer.program
    plan, shape = program.plan, program.data.examples.inputs.shape[1:]
    coalitions = coalition_steps(trainer)
    flops_of_batch = cache(partial(step_flops, trainer))
    costs = {
        mask: flops_of_batch(batch) * steps
        for mask, (batch, steps) in coalitions.items()
    }
    training = costs[max(coalitions)]
    estimation = sum(costs.values()) - training
    if program.mechanism.needs_contribution:
        batch = plan.estimation.validation_batch_size
        longest = program.data.split.validation.shape[-1]
        utility = product_flops(
            partial(program.model.apply, train=False, key=None),
            *program.model.shapes(program.data.example),
            jax.ShapeDtypeStruct((batch, *shape), jnp.float32),
        )
        estimation += len(coalitions) * -(-longest // batch) * utility
    return plan.cohort_size * training, plan.cohort_size * estimation
