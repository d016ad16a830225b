"""A Gaussian process on what a blend of models lacks; its design precedes any training.

The blend B knows none, single attributes and all exactly. What it lacks elsewhere,
D = U - B, is taken for a Gaussian process of mean 0 with the covariance

    s^2 exp(-h(S, T)/(l n)),   h = |S xor T|, n attributes,   l = 1/2

conditioned on D = 0 where B is exact, and observed with a variance of 1/100 of its mean
variance. Shapley values are linear, psi = A U, so with X the trained coalitions, d what
they lack, K the covariance and E its nugget,

    psi = A B + A K_X (K_XX + E)^-1 d
    Cov = s^2 [A K A' - A K_X (K_XX + E)^-1 K_X' A'],   s^2 = d (K_XX + E)^-1 d / m

Cov/s^2 does not depend on d. So X is chosen before, one coalition after the other, each
the one that lowers the trace of Cov most; all are trained as one batch. The first n are
those that lack one attribute each. Beyond ten attributes
it chooses among these and 256 coalitions that are drawn once for all.

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
from fedsvp_jax.structs import Array

LENGTH, NUGGET = 0.5, 0.01
DEVIATIONS = 3.0  # of a 95 % interval; 1.96 if the process were the games' own


class Design(NamedTuple):
    """What is trained, and what follows from it, for a number of held attributes.

    Stacked by that number n = 0, ..., N; attributes are named by rank, and what is
    beyond n or beyond the coalitions that are not known is 0.
    """

    rows: np.ndarray  # (..., m, N) bool
    weights: np.ndarray  # (..., N, m): values change by weights @ what is lacking
    deviations: np.ndarray  # (..., N): sqrt(diag Cov)/s
    inverse: np.ndarray  # (..., m, m): of K_XX + E


class Prior(NamedTuple):
    """The process given what the blend knows, of mean variance 1 elsewhere."""

    rows: np.ndarray  # (c, n) bool: coalitions that a design may take
    kernel: np.ndarray  # (c, c) K among them
    values: np.ndarray  # (n, c) A K
    spread: np.ndarray  # (n,) diag A K A'


def _candidates(number: int) -> np.ndarray:
    """(c, n) bool: all coalitions, or those that lack one and DRAWN others."""
    if number <= shapley.MAX_EXACT:
        return np.arange(2**number)[:, None] >> np.arange(number) & 1 == 1
    draw = np.random.default_rng(number)
    sizes = draw.integers(2, number - 1, shapley.MOST_DESIGNED // 2)
    some = [draw.permutation(number) < size for size in sizes]
    halves = draw.random((shapley.MOST_DESIGNED - len(some), number)) < 0.5
    return np.concatenate([~np.eye(number, dtype=bool), some, halves])


def _prior(number: int) -> Prior:
    """The process of n attributes; n >= 3.

    Let r = exp(-1/(l n)). Where every other attribute joins with the chance q, and q is
    uniform, Shapley values are mean gains, so for T with t other attributes

        (A K)_a,T = +-(1 - r) int (q + (1 - q) r)^t (q r + 1 - q)^(n - 1 - t) dq

    with + where a is in T; and diag A K A' = 2 (1 - r) times the same mean over T.
    """
    rows = _candidates(number)
    near = np.exp(-1 / (LENGTH * number))
    known = np.concatenate(
        [np.zeros((1, number)), np.eye(number), np.ones((1, number))]
    ).astype(bool)
    nodes, weights = np.polynomial.legendre.leggauss(number)
    nodes, weights = (nodes + 1) / 2, weights / 2
    joins, stays = nodes + (1 - nodes) * near, nodes * near + 1 - nodes

    def kernel(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        differ = (left[:, None] != right[None]).sum(-1)
        return np.asarray(near**differ)

    def values(rows: np.ndarray) -> np.ndarray:
        others = np.arange(number)[:, None]
        gain = (1 - near) * (joins**others * stays ** (number - 1 - others)) @ weights
        size = rows.sum(1)[None]
        inside = gain[np.maximum(size - 1, 0)]
        outside = gain[np.minimum(size, number - 1)]
        return np.where(rows.T, inside, -outside)

    both = nodes[:, None] * joins + (1 - nodes[:, None]) * stays
    spread = 2 * (1 - near) * (weights @ both ** (number - 1) @ weights)
    inner, told = np.linalg.inv(kernel(known, known)), values(known)

    def given(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return kernel(left, right) - kernel(left, known) @ inner @ kernel(known, right)

    sizes = np.arange(2, number)
    one_of_each = np.arange(number)[None] < sizes[:, None]
    count = np.asarray([float(math.comb(number, size)) for size in sizes])
    scale = given(one_of_each, one_of_each).diagonal() @ (count / count.sum())
    covariance, change = given(rows, rows), values(rows)
    change = change - told @ inner @ kernel(known, rows)
    exact = (rows.sum(1) <= 1) | (rows.sum(1) == number)
    covariance[exact], covariance[:, exact], change[:, exact] = 0, 0, 0
    left = spread - np.einsum("ak,kl,al->a", told, inner, told)
    return Prior(rows, covariance / scale, change / scale, left / scale)


def _of_number(number: int, trainings: int) -> Design:
    """`Design` without padding; n >= 3."""
    prior = _prior(number)
    left, values, spread = prior.kernel.copy(), prior.values.copy(), prior.spread
    chosen = list[int]()
    for _ in range(min(trainings, 2**number - number - 2)):
        gain = np.square(values).sum(0) / (left.diagonal() + NUGGET)
        gain[chosen] = -1
        # Rounding must not decide between coalitions that are alike.
        best = int(np.argmax(np.round(gain / gain.max(), 6)))
        chosen.append(best)
        column, moved = left[:, best].copy(), values[:, best].copy()
        left -= np.outer(column, column) / (column[best] + NUGGET)
        values -= np.outer(moved, column) / (column[best] + NUGGET)
        spread = spread - moved**2 / (column[best] + NUGGET)
    inner = prior.kernel[np.ix_(chosen, chosen)] + NUGGET * np.eye(len(chosen))
    inverse = np.linalg.inv(inner)
    return Design(
        prior.rows[chosen],
        prior.values[:, chosen] @ inverse,
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
    for held in range(3, number + 1):
        one = _of_number(held, trainings)
        asked = len(one.rows)
        stacked.rows[held, :asked, :held] = one.rows
        stacked.weights[held, :held, :asked] = one.weights
        stacked.deviations[held, :held] = one.deviations
        stacked.inverse[held, :asked, :asked] = one.inverse
    return stacked


def _ranks(key: Array, held: Array) -> Array:
    """(N,) int32: a random order of the held attributes, the others behind."""
    draws = jax.random.uniform(jax.random.fold_in(key, 0), held.shape)
    return jnp.argsort(jnp.argsort(jnp.where(held, draws, 2)))


def rows(key: Array, held: Array, trainings: int) -> Array:
    """(m, N) bool: the coalitions that are trained; empty where none is needed."""
    table = jnp.asarray(design(held.shape[0], trainings).rows)
    return held[None] & table[jnp.sum(held.astype(jnp.int32))][:, _ranks(key, held)]


def correction(
    key: Array, held: Array, lacking: Array, resolution: Array | float
) -> shapley.SampledValues:
    """What the trained coalitions say of the blend's error: values that sum to 0.

    Args:
      key: as `rows` took it.
      lacking: (m,) D of the rows, 0 for an empty one.
      resolution: the least step of a utility; it counts as one more observation, so
        that few equal ones are not taken for proof.
    """
    number, ranks = jnp.sum(held.astype(jnp.int32)), _ranks(key, held)
    tables = design(held.shape[0], lacking.shape[0])
    told = jax.tree.map(lambda table: jnp.asarray(table)[number], tables)
    asked = jnp.sum(jnp.any(told.rows, axis=1).astype(jnp.float32))
    squares = lacking @ told.inverse @ lacking + resolution**2
    scale = jnp.sqrt(squares / jnp.maximum(asked, 1))
    errors = jnp.where(held, scale * told.deviations[ranks], 0)
    change = jnp.where(held, (told.weights @ lacking)[ranks], 0)
    return shapley.SampledValues(change, errors)
