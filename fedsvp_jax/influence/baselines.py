"""Other scores of a contributor, higher is better: what lazy influence is held against.

None of them hides anything: they read the testers' examples as one pool, or, as the
centre's own filter, the centre's examples.
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
    """All batches as one: `(x, labels, weights)` with one leading axis."""
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
    """The last layer, trained on the batches of those who are present (M,) bool."""
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
    """() float32: accuracy on `test` after training on the admitted batches."""
    trained = _trained_on(kernel, train, admitted, rates, _RETRAINING_EPOCHS)
    x, labels, weights = pooled(test)
    right = (jnp.argmax(x @ trained.T, axis=-1) == labels).astype(jnp.float32)
    return jnp.sum(right * weights) / jnp.sum(weights)


@jax.jit
def exact_influence(
    kernel: Array, train: Batches, test: Batches, rates: FilterRates
) -> Array:
    """(M,): test loss of the last layer retrained without A, minus with everybody.

    M + 1 retrainings from W_0, for small cases.

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
    """(M,): g_testᵀ (H + λI)⁻¹ g_A, gradients and Hessian at W_0.

    H is the Hessian of everybody's loss; the system is solved by conjugate gradients
    with Hessian-vector products, so H is never formed.

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
        own = Batches(x[None], labels[None], weights[None])
        return jnp.sum(direction * jax.grad(_mean_loss)(kernel, own))

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
    """(M,): Shapley value of each contributor's batch, by truncated Monte Carlo.

    The utility of a coalition is minus the test loss of the last layer that took the
    contributors' number of epochs on its batches.

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
    """(M,): how much each noised contribution lowers the loss of the centre's examples.

    The same contributions as lazy influence's, no testers, no votes.
    """
    sent = lazy.contributions(kernel, train, rates, key=key)
    return lazy.improvements(kernel, sent, warmup)[:, 0]
