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
those that lack one attribute each: the design of `leave_one_out`.

l and the nugget were chosen on the development games of docs/shapley.md among 9 pairs,
and so was the number of deviations of an interval.

Source: the idea of a process over coalitions is ShaplEIG's (arXiv 2606.02247), which
asks one by one and has no blend.
"""

import functools
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


class Correction(NamedTuple):
    """What the process says of the values."""

    values: Array  # (N,) float32: what is added to the blend's; they sum to 0
    standard_errors: Array  # (N,) float32
    margins: Array  # (N,) float32: half the 95 % interval


def _covariance(number: int) -> np.ndarray:
    """(2^n, 2^n) by bitmask, of mean variance 1 where the blend is not exact."""
    masks = np.arange(2**number)
    differ = np.bitwise_count(masks[:, None] ^ masks).astype(float)
    kernel = np.exp(-differ / (LENGTH * number))
    size = np.bitwise_count(masks)
    exact = (size <= 1) | (size == number)
    known = kernel[:, exact]
    kernel = kernel - known @ np.linalg.solve(kernel[np.ix_(exact, exact)], known.T)
    kernel[exact], kernel[:, exact] = 0, 0
    return np.asarray(kernel / kernel.diagonal()[~exact].mean())


def _of_number(number: int, trainings: int) -> tuple[list[int], Design]:
    """The coalitions as bitmasks, and `Design` without padding; n >= 3."""
    covariance, values = _covariance(number), shapley.weights(number).T
    left, chosen = covariance.copy(), list[int]()
    for _ in range(min(trainings, 2**number - number - 2)):
        gain = np.square(values @ left).sum(0) / (left.diagonal() + NUGGET)
        gain[[0, *chosen]] = -1
        # Rounding must not decide between coalitions that are alike.
        best = int(np.argmax(np.round(gain / gain.max(), 6)))
        chosen.append(best)
        column = left[:, best].copy()
        left -= np.outer(column, column) / (column[best] + NUGGET)
    inner = covariance[np.ix_(chosen, chosen)] + NUGGET * np.eye(len(chosen))
    inverse = np.linalg.inv(inner)
    spread = np.einsum("as,st,at->a", values, left, values)
    rows = np.asarray(chosen)[:, None] >> np.arange(number) & 1 == 1
    weights = values @ covariance[:, chosen] @ inverse
    return chosen, Design(rows, weights, np.sqrt(np.maximum(spread, 0)), inverse)


@functools.cache
def design(number: int, trainings: int) -> Design:
    """The designs for every n up to N = `number`, stacked.

    Args:
      trainings: m.
    """
    stacked = Design(
        np.zeros((number + 1, trainings, number), bool),
        np.zeros((number + 1, number, trainings), np.float32),
        np.zeros((number + 1, number), np.float32),
        np.zeros((number + 1, trainings, trainings), np.float32),
    )
    for held in range(3, number + 1):
        chosen, one = _of_number(held, trainings)
        asked = len(chosen)
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
) -> Correction:
    """What the trained coalitions say of the blend's error.

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
    return Correction(change, errors, DEVIATIONS * errors)
