"""Noise that is correlated over the rounds: each round takes back part of the earlier.

With independent noise the model after T rounds carries the sum of T draws. Here the
server adds y_t in round t, where y solves C y = Z for independent Z_t ~ N(0, I_d) and C
is lower triangular, so that much of y_t cancels what was added before. A client that
takes part at most once in any b rounds reads disjoint columns of the banded C:

    c_0 = 1, c_j = c_{j-1} (2j - 1)/(2j) for j < b, else 0;  C[t, i] = c_{t-i}
    sensitivity of k uploads clipped to S:  sqrt(k) ‖c‖ S

(docs/appendix, P16). b = 1 is independent noise. Source: the banded square root of
Kalinin and Lampert 2024 (arXiv 2405.13763), section 4; the mechanism for adaptive
inputs: Denisov et al. 2022 (arXiv 2202.08312), Theorem 2.1.
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array


def band_coefficients(num_bands: int) -> np.ndarray:
    """(b,) c_0 ... c_{b-1} as above: the first ones of (1 - x)^(-1/2)."""
    j = np.arange(1, num_bands)
    return np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])


def inverse_coefficients(num_bands: int, num_rounds: int) -> np.ndarray:
    """(T,) g with y_t = Σ_{i ≤ t} g_{t-i} Z_i: of the power series 1/(Σ_j c_j x^j)."""
    from scipy import signal

    impulse = np.arange(num_rounds) == 0
    return np.asarray(signal.lfilter([1.0], band_coefficients(num_bands), impulse))


def round_noise(
    key: Array, round_num: Array, coefficients: np.ndarray, *, size: int
) -> Array:
    """y_t, (size,) float32.

    The earlier rounds' Z are drawn again, so nothing has to be remembered of them; the
    time of a round grows with its number.

    Args:
      key: the same in all rounds; Z_i is drawn with fold_in(key, i).
      round_num: () int32, t from 0.
      coefficients: (T,) of `inverse_coefficients`.
      size: d.
    """
    weights = jnp.asarray(coefficients, jnp.float32)

    def add(earlier: Array, total: Array) -> Array:
        sample = prng.normal(jax.random.fold_in(key, earlier), size)
        return total + weights[round_num - earlier] * sample

    return jax.lax.fori_loop(0, round_num + 1, add, jnp.zeros(size, jnp.float32))


def growth(coefficients: np.ndarray) -> np.ndarray:
    """(T,) standard deviation of a number of y_t: sqrt(Σ_{i ≤ t} g_i²)."""
    return np.sqrt(np.cumsum(np.square(coefficients)))
