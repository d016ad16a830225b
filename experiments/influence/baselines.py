"""Other scores of contributors, to compare lazy influence with; higher is better.

None of them protects anybody's data. `centre_validation` scores by the centre's
examples, the others by all testers' examples pooled. In every signature, `kernel` is
the centre's last layer W_0 (C, d), and `train` and `test` hold the batches of M
contributors and testers.
"""

from functools import partial

import jax
import jax.numpy as jnp

from fedsvp_jax import shapley
from fedsvp_jax.influence import last_layer, lazy
from fedsvp_jax.influence.lazy import Batches, FilterRates
from fedsvp_jax.structs import Array

_RETRAINING_EPOCHS = 50
_DAMPING = 0.01  # added to the Hessian, as Koh and Liang do


def pooled(batches: Batches) -> tuple[Array, Array, Array]:
    """All batches as one: `(x, labels, weights)`, each with one leading axis (M·n)."""
    return (
        batches.x.reshape(-1, batches.x.shape[-1]),
        batches.labels.reshape(-1),
        batches.weights.reshape(-1),
    )


def _trained_on(
    kernel: Array,
    train: Batches,
    present: Array,
    rates: FilterRates,
    epochs: Array | int,
) -> Array:
    """(C, d): the last layer, trained on the batches of those `present` (M,) bool."""
    weights = train.weights * present.astype(jnp.float32)[:, None]
    x, labels, _ = pooled(train)
    return last_layer.descend(
        kernel,
        x,
        labels,
        weights.reshape(-1),
        num_epochs=epochs,
        learning_rate=rates.learning_rate,
    )


def _mean_loss(kernel: Array, test: Batches) -> Array:
    x, labels, weights = pooled(test)
    return jnp.sum(weights * last_layer.losses(kernel, x, labels)) / jnp.sum(weights)


@jax.jit
def model_accuracy(
    kernel: Array, train: Batches, test: Batches, admitted: Array, rates: FilterRates
) -> Array:
    """() float32: accuracy on `test` after training on the `admitted` (M,) batches."""
    trained = _trained_on(kernel, train, admitted, rates, _RETRAINING_EPOCHS)
    x, labels, weights = pooled(test)
    right = (jnp.argmax(x @ trained.T, axis=-1) == labels).astype(jnp.float32)
    return jnp.sum(right * weights) / jnp.sum(weights)


@jax.jit
def exact_influence(
    kernel: Array, train: Batches, test: Batches, rates: FilterRates
) -> Array:
    """(M,): how much the test loss rises if the last layer is trained without each one.

    It retrains the last layer from W_0 M + 1 times, so it is for few contributors.

    Source: lazy influence (arXiv 2205.11518), eq. 1, with the last layer as model.
    """
    num = train.x.shape[0]

    def loss(present: Array) -> Array:
        trained = _trained_on(kernel, train, present, rates, _RETRAINING_EPOCHS)
        return _mean_loss(trained, test)

    without = jax.lax.map(loss, ~jnp.eye(num, dtype=bool))
    return without - loss(jnp.ones((num,), bool))


@jax.jit
def first_order_influence(kernel: Array, train: Batches, test: Batches) -> Array:
    """(M,): g_testᵀ (H + λI)⁻¹ g_A of each contributor A, all at W_0, λ = 0.01.

    g_test and g_A are gradients of the mean loss on all test examples and on A's batch;
    H is the Hessian of the mean loss on all batches. Conjugate gradients with
    Hessian-vector products solve the system, so H is never formed.

    Source: Koh and Liang 2017 (arXiv 1703.04730), eq. 2.
    """

    def train_loss(w: Array) -> Array:
        return _mean_loss(w, train)

    def damped(vector: Array) -> Array:
        product = jax.jvp(jax.grad(train_loss), (kernel,), (vector,))[1]
        return product + _DAMPING * vector

    wanted = jax.grad(lambda w: _mean_loss(w, test))(kernel)
    direction, _ = jax.scipy.sparse.linalg.cg(damped, wanted, maxiter=100)

    def one(x: Array, labels: Array, weights: Array) -> Array:
        batch = Batches(x[None], labels[None], weights[None])
        return jnp.sum(direction * jax.grad(_mean_loss)(kernel, batch))

    return jax.vmap(one)(*train)


@partial(jax.jit, static_argnames=("num_permutations", "tolerance"))
def data_shapley(
    kernel: Array,
    train: Batches,
    test: Batches,
    rates: FilterRates,
    *,
    num_permutations: int,
    tolerance: float,
    key: Array,
) -> Array:
    """(M,): the Shapley value of each contributor's batch, by truncated Monte Carlo.

    The utility of a coalition is minus the test loss of the last layer after
    `rates.local_epochs` steps on the coalition's batches.

    Args:
      kernel, train, test, rates: as everywhere in this module.
      num_permutations, tolerance, key: as `shapley.truncated_shapley` takes them.

    Source: Ghorbani and Zou 2019 (arXiv 1904.02868), algorithm 1.
    """

    def utility(present: Array) -> Array:
        trained = _trained_on(kernel, train, present, rates, rates.local_epochs)
        return -_mean_loss(trained, test)

    return shapley.truncated_shapley(
        utility,
        train.x.shape[0],
        num_permutations=num_permutations,
        tolerance=tolerance,
        key=key,
    )


@jax.jit
def centre_validation(
    kernel: Array, train: Batches, warmup: Batches, rates: FilterRates, *, key: Array
) -> Array:
    """(M,): how much each contribution lowers the loss on the centre's examples.

    The contributions are those of lazy influence, clipped and noised; there are no
    testers and no votes.

    Args:
      kernel, train, rates: as everywhere in this module.
      warmup: the centre's examples as one batch.
      key: draws the contributions' noise.
    """
    sent = lazy.contributions(kernel, train, rates, key=key)
    return lazy.improvements(kernel, sent, warmup)[:, 0]
