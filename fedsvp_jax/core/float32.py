"""Arithmetic in float32 whose error is bounded by proof, or whose bits no layout moves.

Claims speak of real numbers, and uploads are computed in float32. u = 2^-24 is the unit
roundoff: a sum, product or quotient of two numbers is off by at most u times itself.

A claim depends on the distance between two neighbours' results. A sum of n vectors of
length C may be nC long. So its rounding error may be nu times the change by one record
in the best order of additions, and n times as much in a bad one. Hence the orders
below, and `reserve`: vectors are clipped to C/(1 + ρ), so that float32 sums keep C.
"""

import jax
import jax.numpy as jnp

from .structs import Array, Number, Params

ROUNDOFF = 2.0**-24
_STAGE = 4096  # numbers that a pass of `staged_sum` adds up


def pairwise_sum(rows: Array) -> Array:
    """The sum over the leading axis of (n, ...), as a binary tree of additions.

    Every number is added to at most H = ⌈log2 n⌉ times, so that each coordinate of the
    result is off by at most Hu/(1 − Hu)·Σ|x_i| (Higham 2002, section 4.2). A sum that
    the compiler orders may be off by (n − 1)u·Σ|x_i|.
    """
    while len(rows) > 1:
        if len(rows) % 2:
            rows = jnp.concatenate([rows, jnp.zeros_like(rows[:1])])
        half = len(rows) // 2
        rows = rows[:half] + rows[half:]
    return rows[0]


def weighted_sum(weights: Array, rows: Array) -> Array:
    """`pairwise_sum` of rows (n, ...), each times its weight."""
    return pairwise_sum(weights.reshape(-1, *(1,) * (rows.ndim - 1)) * rows)


def in_blocks(rows: Array, number: int, size: int) -> Array:
    """(number, size, ...): blocks of rows (n, ...), the last filled up with zeros."""
    edges = [(0, number * size - len(rows)), *[(0, 0)] * (rows.ndim - 1)]
    return jnp.pad(rows, edges).reshape(number, size, *rows.shape[1:])


def staged_sum(numbers: Array) -> tuple[Array, int]:
    """The sum of all numbers of an array in few passes, and H of this order.

    Each pass adds up at most `_STAGE` numbers in an order of the compiler's, with fewer
    than `_STAGE` additions to any of them. A barrier keeps passes apart. A TPU fuses
    the first pass with the computation of the numbers, where a tree would move them
    log2 n times; a GPU's compiler would write out a tree's last two thousand numbers.
    """
    height = 0
    while numbers.ndim:
        if numbers.ndim == 1 and numbers.size > _STAGE:
            numbers = jnp.pad(numbers, (0, -numbers.size % 128)).reshape(-1, 128)
        count, axes = 1, 0
        while axes < numbers.ndim and count * numbers.shape[axes] <= _STAGE:
            count, axes = count * numbers.shape[axes], axes + 1
        if not axes:
            blocks = -(-len(numbers) // _STAGE)
            count = -(-len(numbers) // (8 * blocks)) * 8
            numbers = in_blocks(numbers, blocks, count)
        over = tuple(range(axes)) if axes else (1,)
        numbers = jax.lax.optimization_barrier(jnp.sum(numbers, over))
        height += count - 1
    return numbers, height


def add_compensated(total: Array, lost: Array, value: Array) -> tuple[Array, Array]:
    """`(total + value, lost + the rounding error)`: one step of a compensated sum.

    Together they are the exact sum, but for the rounding of `lost`: after k steps they
    are off by at most k²u²·Σ|x_i| in each coordinate, and total + lost by
    another u·Σ|x_i|. Source: Knuth's TwoSum; Ogita, Rump and Oishi 2005, Algorithm 4.4.
    """
    new = total + value
    gained = new - total
    return new, lost + ((total - (new - gained)) + (value - gained))


def reserve(number: Number, height: float) -> Number:
    """ρ = 2(H + 3)nu: part of C that the float32 mean of n vectors may be off by.

    Let n vectors of length C' at most be added up in a tree of height H, and the sum be
    multiplied by the float32 nearest to 1/B. The mean is off by (H + 2)u·nC'/B at most
    but for terms in u², and one u more covers those while Hu < 2^-12. Two neighbours'
    means, both off, then lie C'(f + 2(H + 3)nu)/B apart at most: fC/B with
    C' = C/(1 + ρ) and f ≥ 1.
    """
    return 2 * (height + 3) * ROUNDOFF * number


def reciprocal(number: Array) -> Array:
    """1/x, for x that many numbers are divided by: multiply by it.

    XLA turns x/broadcast(s) into x·(1/s) where s has no other use, which the layout
    over devices decides. Behind a barrier the quotient is computed once, on its own.
    """
    return jax.lax.optimization_barrier(1 / number)


def rounded(tree: Params, zero: Array) -> Params:
    """The same numbers, each rounded to float32 before anything that follows reads it.

    A compiler may fuse the product that makes a number with the sum that reads it, and
    so skip a rounding. On a CPU it writes one loop for a finite gradient and one for
    another, in which different sums are fused, so the rounding of other records'
    coordinates showed whether a record had overflowed, also behind a barrier. Here the
    bits pass through an integer, which nothing fuses with.

    Args:
      tree: leaves of float32.
      zero: () int32, a 0 that no compiler can know.
    """

    def leaf(number: Array) -> Array:
        bits = jax.lax.bitcast_convert_type(number, jnp.int32)
        return jax.lax.bitcast_convert_type(bits ^ zero, jnp.float32)

    return jax.tree.map(leaf, tree)
