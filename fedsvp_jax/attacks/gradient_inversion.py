"""Gradient inversion: searches for the images whose gradient a client has sent.

The server knows the broadcast model and the settings, and holds one upload. A client
that took one local step sent -eta·g, so the server has the gradient g, with or without
noise. It looks for images x whose gradient agrees with g:

    l2      min_x ‖∇L(w; x, y) - g‖²                          Zhu et al. 2019
    cosine  min_x 1 - cos(∇L(w; x, y), g) + alpha·TV(x)       Geiping et al. 2020

Both objectives are minimised by Adam on the signs of the gradient, within the range of
the pixels (Geiping et al. 2020), from several starts side by side. The result is the
start with the lowest objective, so that nothing but the upload decides. Zhu et al. use
L-BFGS, which needs a twice differentiable network; ReLU and max-pool are not.

Sources: Deep Leakage from Gradients (arXiv 1906.08935); iDLG (arXiv 2001.02610);
Inverting Gradients (arXiv 2003.14053), sec. 4 and 6.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedsvp_jax.core.structs import Array, Params

from .adam import updated

Match = Literal["l2", "cosine"]
MATCHES = get_args(Match)
_LOW, _HIGH = -1.0, 1.0  # range of the pixels in a model's input
_RATE = 0.1  # first step size; it is divided by ten after these shares of the steps
_DECAYS = (3 / 8, 5 / 8, 7 / 8)


class Search(NamedTuple):
    """Settings of the search for images.

    Attributes:
      match: the objective, l2 or cosine.
      steps: steps of Adam from every start.
      restarts: number of starts, drawn uniformly over the pixels' range.
      tv_weight: alpha, the weight of the total variation (cosine only).
    """

    match: Match
    steps: int
    restarts: int
    tv_weight: float = 1e-5


def inferred_label(gradient: Params, num_classes: int) -> Array:
    """() int32: the label of the single example that a gradient was computed from.

    Under cross-entropy, the gradient of the last bias is softmax - onehot, which is
    negative only at the label. With noise, its smallest entry is the best guess.

    Raises:
      ValueError: no leaf of the gradient has one entry per class.

    Source: iDLG (Zhao et al. 2020).
    """
    biases = [x for x in jax.tree.leaves(gradient) if x.shape == (num_classes,)]
    if not biases:
        raise ValueError(f"the model has no bias of {num_classes} logits")
    return jnp.argmin(biases[-1])


def disagreement(match: Match, gradient: Params, seen: Params) -> Array:
    """() float32, >= 0: how far a gradient is from the one that was seen.

    `l2` is divided by ‖seen‖², which does not move the minimum. `cosine` does not
    depend on the length of either gradient.
    """
    dot = optax.tree.vdot
    if match == "l2":
        gap = optax.tree.sub(gradient, seen)
        return dot(gap, gap) / jnp.maximum(dot(seen, seen), 1e-30)
    lengths = jnp.sqrt(dot(gradient, gradient) * dot(seen, seen))
    return 1.0 - dot(gradient, seen) / jnp.maximum(lengths, 1e-30)


def invert(
    gradient_of: Callable[[Array], Params],
    seen: Params,
    shape: tuple[int, ...],
    search: Search,
    *,
    key: Array,
) -> tuple[Array, Array]:
    """The images whose gradient agrees best with the one seen; it may be traced.

    Args:
      gradient_of: images -> the gradient that a client with these images would send.
      seen: the gradient that was sent.
      shape: (batch, H, W, C) of the images.
      search: settings of the search.
      key: draws the starts.

    Returns:
      `(images, value)`: (batch, H, W, C) float32 in [-1, 1], and the lowest objective
      of all starts.
    """

    def objective(images: Array) -> Array:
        value = disagreement(search.match, gradient_of(images), seen)
        if search.match == "cosine":
            down, across = (
                jnp.mean(jnp.abs(jnp.diff(images, axis=axis))) for axis in (1, 2)
            )
            value += search.tv_weight * (down + across)  # its total variation
        return value

    schedule = optax.piecewise_constant_schedule(
        _RATE, {round(share * search.steps): 0.1 for share in _DECAYS}
    )
    optimizer = optax.adam(schedule)

    def search_once(key: Array) -> tuple[Array, Array]:
        start = jax.random.uniform(key, shape, jnp.float32, minval=_LOW, maxval=_HIGH)

        def step(_: Array, carry: tuple[Array, Any]) -> tuple[Array, Any]:
            images, moments = carry
            direction = jnp.sign(jax.grad(objective)(images))
            images, moments = updated(optimizer, direction, moments, images)
            return jnp.clip(images, _LOW, _HIGH), moments

        carry = start, optimizer.init(start)
        images, _ = jax.lax.fori_loop(0, search.steps, step, carry)
        return images, objective(images)

    images, values = jax.vmap(search_once)(jax.random.split(key, search.restarts))
    best = jnp.nanargmin(values)
    return images[best], values[best]


def psnr(image: np.ndarray, truth: np.ndarray) -> float:
    """Peak signal-to-noise ratio in dB, peak 1: -10·log10(mean squared error)."""
    error = float(np.mean(np.square(np.asarray(image, float) - truth)))
    return float("inf") if error == 0 else -10.0 * float(np.log10(error))
