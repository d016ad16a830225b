"""A Gaussian process on the error of a blend of models, with a design fixed before.

The blend B is exact for no attribute, single attributes and all. Its error elsewhere,
D = U - B, is taken for a Gaussian process of mean 0 with the covariance

    s^2 exp(-h(S, T)/(l n)),   h = |S xor T|, n attributes,   l = 1/2

conditioned on D = 0 where B is exact. An observation's variance is 1/100
of the mean variance. Shapley values are linear, psi = A U, so with X the trained
coalitions, d the errors on them, K the covariance and E its nugget,

    psi = A B + A K_X (K_XX + E)^-1 d
    Cov = s^2 [A K A' - A K_X (K_XX + E)^-1 K_X' A'],   s^2 = d (K_XX + E)^-1 d / m

Cov/s^2 does not depend on d. So X is chosen before any training, one coalition after
the other, each the one that lowers the trace of Cov most. The first n lack one
attribute each. Beyond ten attributes the choice is among these and 256 coalitions that
are drawn once for all.

l and the nugget were chosen among 9 pairs on the development games of
experiments/studies/shapley, and so was the number of deviations of an interval.

Source: the idea of a process over coalitions is ShaplEIG's (arXiv 2606.02247), which
asks one by one and has no blend.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import shapley
from fedsvp_jax.core.structs import Array, Number

from .coalitions import coalition_rows
from .paired import random_ranks

LENGTH, NUGGET = 0.5, 0.01
DEVIATIONS = 3.0  # of a 95 % interval; 1.96 if the process were the games' own


class Design(NamedTuple):
    """The coalitions to train and their weights, for each number of present attributes.

    Stacked by that number n = 0, ..., N; attributes are named by rank. Entries beyond n
    or beyond the coalitions to train are 0.
    """

    rows: np.ndarray  # (..., m, N) bool
    weights: np.ndarray  # (..., N, m): values change by weights @ errors of the blend
    deviations: np.ndarray  # (..., N): sqrt(diag Cov)/s
    inverse: np.ndarray  # (..., m, m): of K_XX + E


def _prior(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The process given what the blend knows, of mean variance 1 elsewhere.

    Let r = exp(-1/(l n)). Where every other attribute joins with the chance q, and q is
    uniform, Shapley values are mean gains, so for T with t other attributes

        (A K)_a,T = +-(1 - r) int (q + (1 - q) r)^t (q r + 1 - q)^(n - 1 - t) dq

    with + where a is in T; and diag A K A' = 2 (1 - r) times the same mean over T.

    Args:
      rows: (c, n) bool, n >= 3: coalitions that a design may take.

    Returns:
      (c, c) K among them, (n, c) A K, and (n,) diag A K A'.
    """
    number = rows.shape[1]
    near = np.exp(-1 / (LENGTH * number))
    anchors = np.concatenate(
        [np.zeros((1, number)), np.eye(number), np.ones((1, number))]
    ).astype(bool)
    nodes, weights = np.polynomial.legendre.leggauss(number)
    nodes, weights = (nodes + 1) / 2, weights / 2
    joins, stays = nodes + (1 - nodes) * near, nodes * near + 1 - nodes

    def kernel(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.asarray(near ** (first[:, None] != second[None]).sum(-1))

    def values(rows: np.ndarray) -> np.ndarray:
        num_others = np.arange(number)[:, None]
        gain = (
            (1 - near)
            * (joins**num_others * stays ** (number - 1 - num_others))
            @ weights
        )
        size = rows.sum(1)[None]
        inside = gain[np.maximum(size - 1, 0)]
        return np.where(rows.T, inside, -gain[np.minimum(size, number - 1)])

    both = nodes[:, None] * joins + (1 - nodes[:, None]) * stays
    spread = 2 * (1 - near) * (weights @ both ** (number - 1) @ weights)
    inner, anchor_values = np.linalg.inv(kernel(anchors, anchors)), values(anchors)

    def conditional(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return kernel(first, second) - kernel(first, anchors) @ inner @ kernel(
            anchors, second
        )

    sizes = np.arange(2, number)
    one_of_each = np.arange(number)[None] < sizes[:, None]
    count = np.asarray([float(math.comb(number, size)) for size in sizes])
    scale = conditional(one_of_each, one_of_each).diagonal() @ (count / count.sum())
    covariance, change = conditional(rows, rows), values(rows)
    change -= anchor_values @ inner @ kernel(anchors, rows)
    exact = (rows.sum(1) <= 1) | (rows.sum(1) == number)
    covariance[exact], covariance[:, exact], change[:, exact] = 0, 0, 0
    remaining = spread - np.einsum("ak,kl,al->a", anchor_values, inner, anchor_values)
    return covariance / scale, change / scale, remaining / scale


def _of_number(number: int, trainings: int) -> Design:
    """`Design` without padding; n >= 3.

    Of all coalitions, or of those that lack one and 256 random ones.
    """
    if number <= shapley.MAX_EXACT:
        rows = coalition_rows(range(2**number), number)
    else:
        draw = np.random.default_rng(number)
        sizes = draw.integers(2, number - 1, shapley.MOST_DESIGNED // 2)
        some = [draw.permutation(number) < size for size in sizes]
        halves = draw.random((shapley.MOST_DESIGNED - len(some), number)) < 0.5
        rows = np.concatenate([~np.eye(number, dtype=bool), some, halves])
    prior_kernel, prior_values, spread = _prior(rows)
    kernel, values = prior_kernel.copy(), prior_values.copy()
    chosen = list[int]()
    for _ in range(min(trainings, 2**number - number - 2)):
        gain = np.square(values).sum(0) / (kernel.diagonal() + NUGGET)
        gain[chosen] = -1
        # Rounding must not decide between coalitions that are alike.
        best = int(np.argmax(np.round(gain / gain.max(), 6)))
        chosen.append(best)
        column, effect = kernel[:, best].copy(), values[:, best].copy()
        kernel -= np.outer(column, column) / (column[best] + NUGGET)
        values -= np.outer(effect, column) / (column[best] + NUGGET)
        spread = spread - effect**2 / (column[best] + NUGGET)
    inner = prior_kernel[np.ix_(chosen, chosen)] + NUGGET * np.eye(len(chosen))
    inverse = np.linalg.inv(inner)
    return Design(
        rows[chosen],
        prior_values[:, chosen] @ inverse,
        np.sqrt(np.maximum(spread, 0)),
        inverse,
    )


@functools.cache
def design(number: int, trainings: int) -> Design:
    """The designs of m = `trainings` for every n up to N = `number`, stacked."""
    stacked = Design(
        np.zeros((number + 1, trainings, number), bool),
        np.zeros((number + 1, number, trainings), np.float32),
        np.zeros((number + 1, number), np.float32),
        np.zeros((number + 1, trainings, trainings), np.float32),
    )
    for count in range(3, number + 1):
        for table, part in zip(stacked, _of_number(count, trainings), strict=True):
            table[count][tuple(map(slice, part.shape))] = part
    return stacked


def _ranks(key: Array, present: Array) -> Array:
    return random_ranks(jax.random.fold_in(key, 0), present)


def rows(key: Array, present: Array, trainings: int) -> Array:
    """(m, N) bool: the coalitions that are trained; empty where none is needed."""
    table = jnp.asarray(design(len(present), trainings).rows)
    return present[None] & table[jnp.sum(present)][:, _ranks(key, present)]


def correction(
    key: Array, present: Array, lacking: Array, resolution: Number
) -> shapley.SampledValues:
    """The correction of the blend's values by the trained coalitions; it sums to 0.

    Args:
      key: as `rows` took it.
      lacking: (m,) D of the rows, 0 for an empty one.
      resolution: the least step of a utility; it counts as one more observation, so
        that few equal ones are not taken for proof.
    """
    number, ranks = jnp.sum(present), _ranks(key, present)
    tables = design(len(present), len(lacking))
    chosen = jax.tree.map(lambda table: jnp.asarray(table)[number], tables)
    num_trained = jnp.sum(jnp.any(chosen.rows, axis=1).astype(jnp.float32))
    squares = lacking @ chosen.inverse @ lacking + resolution**2
    scale = jnp.sqrt(squares / jnp.maximum(num_trained, 1))
    errors = jnp.where(present, scale * chosen.deviations[ranks], 0)
    change = jnp.where(present, (chosen.weights @ lacking)[ranks], 0)
    return shapley.SampledValues(change, errors)
