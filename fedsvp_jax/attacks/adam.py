"""A step of Adam on parameters, or on images."""

import jax
import optax

from fedsvp_jax.core.structs import Params


def updated(
    optimizer: optax.GradientTransformation,
    gradient: Params,
    moments: optax.OptState,
    params: Params,
) -> tuple[Params, optax.OptState]:
    """`(params, moments)` after one step of Adam.

    Optax's Adam and its schedules raise Python floats to the power of int32 counts,
    which strict type promotion refuses.
    """
    with jax.numpy_dtype_promotion("standard"):
        change, moments = optimizer.update(gradient, moments, params)
    return optax.apply_updates(params, change), moments
