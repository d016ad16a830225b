"""Uploads in whole numbers of a grid's steps: what `--noise_sampler=discrete` sends.

A client rounds its clipped vector to multiples of the step γ, adds discrete Gaussian
noise of the Gaussian's std and 9 steps² more, and sends the residues modulo 2^b
(`discrete_gaussian`). Where the cohort shares its noise, the server adds up residues
alone, modulo 2^b, and turns their sum into numbers.

γ is a public power of two, the least for which the sum fits into b bits: the cohort's
K vectors of norm B at most, and eight standard deviations of the noise. A sum outside
wraps around. That spoils a coordinate (a chance of 1e-9 for each) and tells nothing.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from fedsvp_jax.core.structs import Array, Number, Params

from . import discrete_gaussian

_TAILS = 8.0  # standard deviations of the noise that the sum has room for
# Of one client's noise, in steps. A sum of K such noises is then a discrete Gaussian to
# 1e-67·K in its log probabilities (Kairouz, Liu and Steinke 2021, arXiv 2102.06387).
_LEAST_STD = 4.0


class Grid(NamedTuple):
    """The facts of the grid that every client and the server know.

    Attributes:
      bits: b.
      summed: K, the clients whose residues are added; 1 where the server sees each
        upload.
      norm: B, () the length that no vector exceeds before its noise.
      apart: `num_examples -> ()`, how far two neighbours' vectors may be apart (Δ),
        where that is not by their norms. Rounding adds γ√d to it, and the vector is
        shrunk before by as much. None where Δ follows from B: rounding keeps B.
    """

    bits: int
    summed: int
    norm: Number
    apart: Callable[[Array], Array] | None = None


def grid_step(grid: Grid, std: Array) -> Array:
    """γ, () float32: a power of two, at least 2(KB + 8√K·std)/2^b and at most twice it.

    std is that of one client's noise, here and below.
    """
    unit = np.float32(2.0 ** (1 - grid.bits))  # first, so that no sum overflows
    largest = grid.summed * (unit * jnp.float32(grid.norm))
    largest += _TAILS * math.sqrt(grid.summed) * (unit * std)
    return jnp.ldexp(jnp.float32(1), jnp.frexp(largest)[1])


def add_discrete_noise(
    tree: Params, std: Array, grid: Grid, *, num_examples: Number, key: Array
) -> tuple[Params, Array]:
    """The tree, as one vector, on the grid with noise of N_Z(0, (std/γ)²).

    Drawn on the host, by the exact sampler and from a counter generator that the key
    decides: the numbers do not depend on the order of the clients or on the device. The
    tree is no longer than `grid.norm`; `grid.apart` reads |D|; the key is consumed.

    Returns:
      The tree in float32, multiples of γ in [−2^(b−1)γ, 2^(b−1)γ), and the noise's L2
      norm, () float32. NaN both where the tree holds a number that is not finite.
    """
    vector, in_leaves = ravel_pytree(tree)
    std = jnp.float32(std)
    step = grid_step(grid, std)
    distance = jnp.float32(0)
    if grid.apart is not None:
        distance = grid.apart(jnp.asarray(num_examples))
    steps, noise_l2 = jax.pure_callback(
        _on_host,
        (
            jax.ShapeDtypeStruct(vector.shape, jnp.int32),
            jax.ShapeDtypeStruct((), jnp.float32),
        ),
        vector,
        jax.random.key_data(key),
        std,
        step,
        jnp.float32(grid.norm),
        distance,
        np.int32(grid.bits),
        vmap_method="broadcast_all",
    )
    numbers = jnp.where(jnp.isnan(noise_l2), jnp.nan, steps.astype(jnp.float32) * step)
    return in_leaves(numbers), noise_l2


def noised_steps(
    vector: np.ndarray,
    seed: np.ndarray | Sequence[int],
    std: Number,
    step: Number,
    norm: Number,
    distance: Number,
    bits: int,
) -> tuple[np.ndarray, np.float32]:
    """(d,) int32 in [−2^(b−1), 2^(b−1)), and the noise's L2 norm; see above.

    The noise follows from whole numbers ≥ 0, the seed.
    """
    values = np.asarray(vector, np.float64)
    if not np.all(np.isfinite(values)):
        return np.zeros(values.shape, np.int32), np.float32(np.nan)
    words = discrete_gaussian.seeded_words(*map(int, seed))
    gamma = float(step)
    steps = on_grid(
        values, gamma, norm=float(norm), distance=float(distance), words=words
    )
    noise = np.zeros(values.shape, np.int64)
    if std > 0:
        variance = discrete_gaussian.step_variance(float(std), gamma)
        noise = discrete_gaussian.discrete_gaussian(variance, values.size, words)
    length = gamma * float(np.linalg.norm(noise.astype(np.float64)))
    residues = discrete_gaussian.wrapped(steps + noise, int(bits)).astype(np.int32)
    return residues, np.float32(length)


# Of each of the clients that are side by side.
_on_host = np.vectorize(noised_steps, signature="(d),(k),(),(),(),(),()->(d),()")


def on_grid(
    values: np.ndarray,
    step: float,
    *,
    norm: float,
    distance: float,
    words: discrete_gaussian.Words,
) -> np.ndarray:
    """(d,) int64: a finite vector in steps, no longer than `norm`.

    Where neighbours' vectors may be `distance` > 0 apart, it is shrunk so that those in
    steps are no farther apart, whatever their length.
    """
    if distance > 0:
        share = max(0.0, 1.0 - rounding_share(distance, step, values.size))
        scaled = np.multiply(values, share / step, dtype=np.float64)
        return np.rint(scaled, out=scaled).astype(np.int64)
    return discrete_gaussian.rounded(values, step=step, norm_bound=norm, words=words)


def rounding_share(distance: float, step: float, size: int) -> float:
    """γ√d/Δ: the part of Δ that rounding two neighbours' vectors may take.

    Each moves by γ√d/2 at most. A vector that was shrunk by 1 − γ√d/Δ before leaves
    just that much; 1e-6 more is left for the digits of its products.
    """
    return (1 + 1e-6) * step * math.sqrt(size) / distance


def residues(tree: Params, grid: Grid, *, std: Array) -> Params:
    """The residues that are sent of `add_discrete_noise`'s numbers: uint32 < 2^b."""
    step = grid_step(grid, std)
    return jax.tree.map(
        lambda leaf: (
            jnp.round(leaf / step).astype(jnp.int32).astype(jnp.uint32)
            & jnp.uint32((1 << grid.bits) - 1)
        ),
        tree,
    )


def average(total: Params, grid: Grid, *, std: Array, count: Array) -> Params:
    """The clients' average: their uint32 residues' sum modulo 2^b, times γ/count."""
    half = 1 << (grid.bits - 1)
    unit = grid_step(grid, std) / jnp.maximum(count.astype(jnp.float32), 1.0)

    def centred(leaf: Array) -> Array:
        shifted = (leaf + jnp.uint32(half)) & jnp.uint32(2 * half - 1)
        return (shifted.astype(jnp.int32) - half).astype(jnp.float32) * unit

    return jax.tree.map(centred, total)


def check_grid(grid: Grid, *, std: float, num_examples: int, size: int) -> None:
    """Refuses a grid too coarse for a vector of d numbers or for its noise's claim.

    Raises:
      ValueError: says how many bits are needed.
    """

    def fits(bits: int) -> bool:
        step = float(grid_step(grid._replace(bits=bits), jnp.float32(std)))
        room = grid.apart(jnp.float32(num_examples)) if grid.apart else grid.norm
        is_fine = step * math.sqrt(size) <= float(room) / 2
        return is_fine and (std == 0 or std / step >= _LEAST_STD)

    enough = next((bits for bits in range(grid.bits, 25) if fits(bits)), None)
    if enough != grid.bits:
        needed = "more than 24, which is the most" if enough is None else str(enough)
        raise ValueError(
            f"noise_bits must be {needed} for uploads of {size} numbers with this clip "
            f"and noise, got {grid.bits}: the grid is too coarse"
        )
