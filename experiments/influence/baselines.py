"""What lazy influence is compared with: the centre's own validation, and a last layer.

`kernel` is the centre's last layer W_0 (C, d); `train` and `test` hold the batches of M
contributors and testers.
"""

import jax
import jax.numpy as jnp

from fedsvp_jax.influence import last_layer, lazy
from fedsvp_jax.influence.lazy import Batches, FilterRates
from fedsvp_jax.structs import Array

_RETRAINING_EPOCHS = 50


def pooled(batches: Batches) -> tuple[Array, Array, Array]:
    """All batches as one: `(x, labels, weights)`, each with one leading axis (M·n)."""
    return (
        batches.x.reshape(-1, batches.x.shape[-1]),
        batches.labels.reshape(-1),
        batches.weights.reshape(-1),
    )


@jax.jit
def model_accuracy(
    kernel: Array, train: Batches, test: Batches, admitted: Array, rates: FilterRates
) -> Array:
    """() float32: accuracy on `test` after training on the `admitted` (M,) batches."""
    weights = train.weights * admitted.astype(jnp.float32)[:, None]
    x, labels, _ = pooled(train)
    trained = last_layer.descend(
        kernel,
        x,
        labels,
        weights.reshape(-1),
        num_epochs=_RETRAINING_EPOCHS,
        learning_rate=rates.learning_rate,
    )
    x, labels, weights = pooled(test)
    right = (jnp.argmax(x @ trained.T, axis=-1) == labels).astype(jnp.float32)
    return jnp.sum(right * weights) / jnp.sum(weights)


@jax.jit
def centre_validation(
    kernel: Array, train: Batches, warmup: Batches, rates: FilterRates, *, key: Array
) -> Array:
    """(M,): how much each contribution lowers the loss on the centre's examples.

    The contributions are those of lazy influence, clipped and noised; there are no
    testers and no votes.

    Args:
      kernel: W_0.
      train: the contributors' batches.
      rates: of the filter.
      warmup: the centre's examples as one batch.
      key: draws the contributions' noise.
    """
    sent = lazy.contributions(kernel, train, rates, key=key)
    return lazy.improvements(kernel, sent, warmup)[:, 0]
