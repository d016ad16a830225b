"""The scattering transform of order 2, which turns images into features without data.

Wavelets ψ_{j,θ} (Morlet, L angles at each of J scales) and a Gaussian window φ make

    S0 = x ⋆ φ,  S1 = |x ⋆ ψ_{j1,θ1}| ⋆ φ,  S2 = ||x ⋆ ψ_{j1,θ1}| ⋆ ψ_{j2,θ2}| ⋆ φ

with j1 < j2, sampled at every 2^J-th pixel: q = 1 + JL + J(J − 1)/2·L² channels for
each colour. Sources: Bruna and Mallat 2013
(arXiv 1203.1513); the wavelets' constants are those of kymatio (Andreux et al. 2020,
arXiv 1812.11214), which Tramèr and Boneh 2021 (arXiv 2011.11660) train on. Nothing here
is learned, so the features of an example depend on that example alone.
"""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array, Params

SCALES = 2  # J
ANGLES = 8  # L
GROUPS = 27  # of channels that `scattering_features` normalises together
STRIDE = 2**SCALES
_SQUARES = 200  # of each photograph, from which constants are computed
LEAST_SIDE = 2 * STRIDE  # the margins reflect the image


def padded_side(side: int) -> int:
    """P: a multiple of 2^J with a margin of at least 2^(J-1) pixels on both sides."""
    return ((side + STRIDE) // STRIDE + 1) * STRIDE


def morlet(side: int, *, scale: int, angle: float) -> np.ndarray:
    """A Morlet wavelet (P, P) complex, made periodic.

        ψ(u) = (exp(i ξ·u) − β) g(u), g the Gaussian of width σ along ξ and σL/4 across

    with σ = .8·2^j, |ξ| = 3π/4 / 2^j, and β such that ψ sums to 0.

    Args:
      side: P.
      scale: j.
      angle: of ξ, in radians.
    """
    sigma, frequency, slant = 0.8 * 2**scale, 0.75 * math.pi / 2**scale, 4 / ANGLES
    at = np.arange(-2 * side, 3 * side, dtype=np.float64)
    along = at[:, None] * math.cos(angle) + at[None] * math.sin(angle)
    across = at[None] * math.cos(angle) - at[:, None] * math.sin(angle)
    window = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2))
    window *= slant / (2 * math.pi * sigma**2)

    def periodic(values: np.ndarray) -> np.ndarray:
        return values.reshape(5, side, 5, side).sum((0, 2))

    wave, window = periodic(window * np.exp(1j * frequency * along)), periodic(window)
    return wave - wave.sum() / window.sum() * window


def window_rows(side: int, resolution: int) -> np.ndarray:
    """Smoothing by φ and sampling along one axis, as a matrix (side / 2^J, P / 2^r).

    φ is the product of two Gaussians of σ = .8·2^(J−1). At resolution r the frequencies
    that its grid cannot hold are left out, as kymatio does.
    """
    padded = padded_side(side)
    sigma = 0.8 * 2 ** (SCALES - 1)
    at = np.arange(-2 * padded, 3 * padded, dtype=np.float64)
    values = np.exp(-(at**2) / (2 * sigma**2)) / (math.sqrt(2 * math.pi) * sigma)
    spectrum = np.fft.fft(values.reshape(5, padded).sum(0))
    short, step = padded >> resolution, STRIDE >> resolution
    half = short // 2
    cropped = np.concatenate([spectrum[:half], spectrum[padded - (short - half) :]])
    kernel = np.fft.ifft(cropped).real
    margin = (padded - side) // 2
    centres = (margin >> resolution) + step * np.arange(-(-side // STRIDE))
    rows = kernel[(centres[:, None] - np.arange(short)[None]) % short]
    return rows.astype(np.float32)


@functools.cache
def make_filters(side: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The filters of square images of this side, which is P with its margins.

    Returns:
      (J, L, P, P) complex64, the Fourier transform of every wavelet; and the windows by
      resolution r, (side / 2^J, P / 2^r) float32.
    """
    padded = padded_side(side)
    angles = [(ANGLES // 2 - 1 - k) * math.pi / ANGLES for k in range(ANGLES)]
    wavelets = [
        [np.fft.fft2(morlet(padded, scale=j, angle=angle)) for angle in angles]
        for j in range(SCALES)
    ]
    windows = [window_rows(side, resolution) for resolution in range(SCALES)]
    return np.asarray(wavelets, np.complex64), windows


def scattering(images: Array) -> Array:
    """The coefficients of square images, one colour each.

    Args:
      images: (n, side, side) float32, side a multiple of 2^J and at least `LEAST_SIDE`.

    Returns:
      (n, q, side / 2^J, side / 2^J) float32: S0, then S1 with (j1, θ1) and S2
      with (θ1, θ2) in lexicographic order.
    """
    side = images.shape[-1]
    wavelets, windows = make_filters(side)
    margin = (padded_side(side) - side) // 2
    edges = ((0, 0), (margin, margin), (margin, margin))
    padded = jnp.pad(images, edges, mode="reflect")

    def smooth(values: Array, resolution: int) -> Array:  # (..., P / 2^r, P / 2^r)
        rows = jnp.asarray(windows[resolution])
        return jnp.einsum("ap,...pq,bq->...ab", rows, values, rows)

    def moduli(values: Array, scale: int) -> Array:
        """(..., P, P) -> (..., L, P / 2^j, P / 2^j): |x ⋆ ψ_{j,θ}|, sampled."""
        spectrum = jnp.fft.fft2(values)[..., None, :, :]
        of_scale = jnp.asarray(wavelets[scale])
        product = spectrum * jnp.expand_dims(of_scale, range(values.ndim - 2))
        *lead, full, _ = product.shape
        folds, short = 2**scale, full >> scale
        product = product.reshape(*lead, folds, short, folds, short)
        return jnp.abs(jnp.fft.ifft2(product.mean((-4, -2))))

    fine, coarse = moduli(padded, 0), moduli(padded, 1)
    second = moduli(fine, 1)  # the only pair j1 < j2 of two scales
    maps = (
        smooth(padded, 0)[:, None],
        smooth(fine, 0),
        smooth(coarse, 1),
        smooth(second, 1),
    )
    return jnp.concatenate([jax.lax.collapse(m, 1, -2) for m in maps], axis=1)


def scattering_features(images: Array) -> Array:
    """Scattering coefficients of each image, normalised within the image.

    The channels of all colours are divided into `GROUPS` groups, and each group is
    shifted and scaled to mean 0 and variance 1 over its channels and pixels (Wu and He
    2018, arXiv 1803.08494, without weights, ε = 1e-5). No statistics of a data set are
    used.

    Args:
      images: (n, side, side, colours) uint8, read as [0, 1], or float32.

    Returns:
      (n, colours · q · (side / 2^J)²) float32.
    """
    groups = _by_colour(images).reshape(len(images), GROUPS, -1)
    centred = groups - groups.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + 1e-5)).reshape(len(images), -1)


def channel_features(constants: Params, images: Array) -> Array:
    """Scattering coefficients of each image, every channel shifted and scaled.

    The constants are the same for all images: what differs between two images'
    brightness or contrast is kept, unlike in `scattering_features`.

    Returns:
      As there.
    """
    middle, scale = (
        constants[name].reshape(1, 1, -1, 1, 1) for name in ("mean", "scale")
    )
    normal = (_by_colour(images) - middle) * (1 / scale)
    return normal.reshape(len(images), -1)


def channel_constants(photographs: Sequence[np.ndarray], side: int) -> Params:
    """The shift and scale of each channel: its statistics on public photographs.

    Squares of k·side pixels at random places, reduced to `side` by averaging k × k
    pixels, k from 1 to the largest that fits, small k most often (log-uniform), from a
    fixed seed. The data of a run are not looked at.

    Args:
      photographs: (H, W, 3) uint8 each, H and W at least `side`.
      side: of the images that are to be normalised.

    Returns:
      `mean` and `scale`, (q,) float32: mean and sqrt(variance + 1e-5) over
      squares, colours and pixels.
    """
    rng = np.random.default_rng(0)

    def square(photograph: np.ndarray) -> np.ndarray:  # (3, side, side)
        height, width, _ = photograph.shape
        largest = min(height, width) // side
        factor = int(math.exp(rng.uniform(0.0, math.log(largest + 1))))
        top, left = (rng.integers(0, n - factor * side + 1) for n in (height, width))
        rows, columns = (slice(at, at + factor * side) for at in (top, left))
        blocks = photograph[rows, columns].reshape(side, factor, side, factor, 3)
        return blocks.mean((1, 3)).transpose(2, 0, 1) / 255

    apply = jax.jit(scattering)
    coefficients = np.concatenate(
        [
            np.asarray(apply(square(photograph).astype(np.float32)))
            for _ in range(_SQUARES)
            for photograph in photographs
        ]
    )
    mean, variance = coefficients.mean((0, 2, 3)), coefficients.var((0, 2, 3))
    return {"mean": mean, "scale": np.sqrt(variance + np.float32(1e-5))}


def _by_colour(images: Array) -> Array:
    """(n, colours, q, side / 2^J, side / 2^J) of (n, side, side, colours)."""
    if images.dtype == jnp.uint8:
        images = images.astype(jnp.float32) * (1 / 255)
    count, side, _, colours = images.shape
    flat = jnp.moveaxis(images, -1, 1).reshape(count * colours, side, side)
    coefficients = scattering(flat)
    return coefficients.reshape(count, colours, *coefficients.shape[1:])
