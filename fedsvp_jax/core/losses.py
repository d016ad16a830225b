"""A loss of one's own, in the place of cross-entropy.

A loss is a function of one example's output and target. It is mapped over a batch here,
so no example's loss can read another example, and every clipping rule and every
sensitivity holds under it as under cross-entropy. None of them reads the loss.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .structs import Array, Examples, Loss, Model

# (output, target) of one example -> () float32; traceable
ExampleLoss = Callable[[Array, Array], Array]


@functools.cache  # an equal loss is one object, so that programs can be shared
def of_examples(loss: ExampleLoss) -> Loss:
    """The loss of every example of a batch, as `Model.loss` takes it."""
    return jax.vmap(loss)


def weighted(model: Model, class_weights: tuple[float, ...]) -> Model:
    """The model with each example's loss multiplied by the weight of its class."""

    def loss(outputs: Array, labels: Array) -> Array:
        return jnp.asarray(class_weights, jnp.float32)[labels] * model.loss(
            outputs, labels
        )

    return model._replace(loss=loss)


def check_shape(model: Model, examples: Examples, example: Array) -> None:
    """Refuses a loss that does not give one number per example."""
    apply = functools.partial(model.apply, train=False, key=None)
    outputs, _ = jax.eval_shape(apply, *model.shapes(example), example)
    targets = jax.eval_shape(lambda: examples.loss_targets[:1])
    shapes = (
        f"an output of the shape {outputs.shape[1:]} and a target of the shape "
        f"{targets.shape[1:]}"
    )
    try:
        result = jax.eval_shape(model.loss, outputs, targets)
    except (TypeError, ValueError) as error:
        raise ValueError(f"loss does not take {shapes}: {error}") from error
    shape = getattr(result, "shape", None)
    if shape != (1,) or result.dtype != np.float32:
        each = "something else" if shape is None else f"{result.dtype}{list(shape[1:])}"
        raise ValueError(
            f"loss must give one float32 number, shape (), for {shapes}, got {each}"
        )
