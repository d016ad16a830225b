"""Shapley values from random coalitions and their complements.

    psi_a = sum over pairs {T, T'} of [U(T) - U(T')] (s_a / C(n, t)),
    s_a = 1/t if a is in T, else -1/(n - t);   T' the complement, t = |T|

sums over all pairs of complements among n attributes; the pair (all, none) adds
[U(all) - U(none)]/n. So a random pair, weighted by one over its chance, is an unbiased
estimate of what the other pairs add. Pairs of size t are drawn with a chance in
proportion to w(t) = |s| = sqrt(1/t + 1/(n - t)), half of that for t = n/2, which is
best if [U(T) - U(T')]^2 is as large for all pairs. With Z = sum of w(t),

    psi_a ~ [U(all) - U(none)]/n + (Z/P) sum over drawn pairs of [U(T) - U(T')] s_a/|s|

Only present attributes play. One without examples of the client has value 0 exactly.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array, Number, iota

ORDERED = 10  # attributes whose coalitions of a size are windows of one order


class Pairs(NamedTuple):
    """P coalitions with their complements among the present attributes."""

    coalitions: Array  # (P, N) bool: the larger half, at most one attribute missing
    complements: Array  # (P, N) bool


class Correction(NamedTuple):
    """Values estimated from pairs, for a game whose U(all) and U(none) are 0."""

    values: Array  # (N,) float32; they sum to 0
    standard_error: Array  # () float32, of each value; nan without a pair


def _weights(num_present: Array, num_attributes: int) -> Array:
    """(N,) float32: w(t) at t = 0, ..., N - 1; 0 for a size that is no larger half."""
    size = jnp.arange(num_attributes, dtype=jnp.float32)
    total = num_present.astype(jnp.float32)
    in_half = (2 * size >= total) & (size >= 1) & (size < total)
    weight = jnp.sqrt(1 / jnp.maximum(size, 1) + 1 / jnp.maximum(total - size, 1))
    return jnp.where(in_half, jnp.where(2 * size == total, weight / 2, weight), 0)


def random_ranks(key: Array, present: Array) -> Array:
    """(N,) int32: a random order of the present attributes, the others behind."""
    draws = jax.random.uniform(key, present.shape)
    return jnp.argsort(jnp.argsort(jnp.where(present, draws, 2)))


def draw_pairs(key: Array, present: Array, num_pairs: int) -> Pairs:
    """Random pairs, of which each is drawn with the chance that `correction` takes.

    The sizes are drawn systematically: with P pairs, a size of chance q comes up P q
    times, rounded up or down. Up to ORDERED present attributes, coalitions of a size
    are windows of one random order of them, spread evenly over it; after n windows
    comes another order. So few pairs come twice, and every attribute is in as
    many. With more attributes, windows would mostly be alike, and each has an order of
    its own. Where fewer than two of the (N,) attributes are present, all P pairs are
    empty.
    """
    num_attributes = len(present)
    num_present = jnp.sum(present)
    weights = _weights(num_present, num_attributes)
    start_key, order_key = jax.random.split(key)
    number = iota(num_pairs)
    start = jax.random.uniform(start_key)
    place = (number.astype(jnp.float32) + start) / max(num_pairs, 1)
    cumulated = jnp.cumsum(weights)
    sizes = jnp.searchsorted(cumulated, place * cumulated[-1], side="right")
    sizes = jnp.clip(sizes.astype(jnp.int32), 0, jnp.maximum(num_present - 1, 0))
    earlier = (sizes[None, :] == sizes[:, None]) & (number[None, :] < number[:, None])
    repeat = jnp.sum(earlier, axis=1, dtype=jnp.int32) // jnp.maximum(num_present, 1)
    repeat = jnp.where(num_present <= ORDERED, repeat, number)
    spread = jnp.maximum(num_pairs, num_present)
    first = jnp.where(
        num_pairs > num_present, number, number * num_present // jnp.maximum(spread, 1)
    )

    def window(repeat: Array, first: Array, size: Array) -> Array:
        order = jax.random.fold_in(jax.random.fold_in(order_key, size), repeat)
        ranks = random_ranks(order, present)
        return present & ((ranks - first) % jnp.maximum(num_present, 1) < size)

    coalitions = jax.vmap(window)(repeat, first, sizes)
    anything = jnp.any(coalitions, axis=1, keepdims=True)
    return Pairs(coalitions, present[None] & ~coalitions & anything)


def correction(
    pairs: Pairs, present: Array, differences: Array, *, resolution: Number = 0.0
) -> Correction:
    """Unbiased values of a game with U(all) = U(none) = 0 from the pairs' differences.

    The standard error takes the mean square of the differences for that of all pairs:

        SE^2 = Z^2/(n P) (sum of differences^2 + resolution^2)/P

    so it is the same for all present attributes.

    Args:
      pairs: P pairs of `draw_pairs`.
      present: (N,) bool, the attributes that play.
      differences: (P,) float32, U(T) - U(T').
      resolution: the least step of a utility, for example one validation example. It
        counts as one more difference, so that few equal ones are not taken for proof.
    """
    num_pairs = len(differences)
    number = jnp.sum(present.astype(jnp.float32))
    if num_pairs == 0:
        unknown = jnp.float32(jnp.nan)
        return Correction(jnp.zeros(present.shape, jnp.float32), unknown)
    total = jnp.sum(_weights(number, len(present)))
    size = jnp.sum(pairs.coalitions.astype(jnp.float32), axis=1)
    rest = jnp.sum(pairs.complements.astype(jnp.float32), axis=1)
    inside, outside = 1 / jnp.maximum(size, 1), 1 / jnp.maximum(rest, 1)
    signs = jnp.where(pairs.coalitions, inside[:, None], 0)
    signs -= jnp.where(pairs.complements, outside[:, None], 0)
    scaled = total * differences / jnp.sqrt(inside + outside)
    squares = jnp.sum(differences**2) + resolution**2
    error = total * jnp.sqrt(squares / jnp.maximum(number, 1)) / num_pairs
    return Correction(jnp.sum(scaled[:, None] * signs, axis=0) / num_pairs, error)


def margin(standard_error: Array, num_pairs: int, present: Array) -> Array:
    """Half the width of the 95 % interval: Student's t with 1 + (P - 1)(n - 1) degrees.

    One difference alone knows as much of its own size, one degree of freedom. Every
    further pair divides its difference among n present attributes, which is n - 1
    contrasts, and the standard error takes the mean of all their squares. Without pairs
    there is no interval, and the margin is nan.
    """
    if num_pairs == 0:
        return jnp.full_like(standard_error, jnp.nan)
    from scipy import stats

    contrasts = np.maximum(np.arange(len(present) + 1) - 1, 1)
    quantiles = stats.t.ppf(0.975, 1 + (num_pairs - 1) * contrasts)
    number = jnp.sum(present)
    return standard_error * jnp.asarray(quantiles, jnp.float32)[number]
