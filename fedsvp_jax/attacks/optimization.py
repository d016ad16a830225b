"""One step of an optax optimiser, also where JAX promotes no types."""

import jax
import optax

from fedsvp_jax.structs import Params


def updated(
    optimizer: optax.GradientTransformation,
    gradient: Params,
    moments: optax.OptState,
    params: Params,
) -> tuple[Params, optax.OptState]:
    """`(params, moments)` after the step.

    Optax's Adam and its schedules raise Python floats to int32 counts, which strict
    promotion refuses.
    """
    with jax.numpy_dtype_promotion("standard"):
        change, moments = optimizer.update(gradient, moments, params)
    return optax.apply_updates(params, change), moments
