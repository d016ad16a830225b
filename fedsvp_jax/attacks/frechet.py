"""Distances of generated images from real ones, in the features of a network.

The Fréchet distance compares two Gaussian fits (Heusel et al. 2017, arXiv 1706.08500).
The kernel distance compares all moments up to the third and has no bias on small
samples, unlike the Fréchet distance (Bińkowski et al. 2018, arXiv 1801.01401). They are
called FID and KID only with the features of Inception-v3's last pooling, which are not
computed here. The nearest-neighbour distance compares pixels; an
image with a distance near zero is a copy.
"""

from typing import Any, NamedTuple

import numpy as np


class Kernel(NamedTuple):
    """A kernel distance and its standard error."""

    distance: float
    standard_error: float


def gaussian_fit(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`(mean, covariance)`, (d,) and (d, d) float64, of features (n, d), n >= 2."""
    points = _samples("features", features)
    centred = points - points.mean(axis=0)
    return points.mean(axis=0), centred.T @ centred / (len(points) - 1)


def frechet_distance(
    mean_a: np.ndarray, cov_a: np.ndarray, mean_b: np.ndarray, cov_b: np.ndarray
) -> float:
    """|m_a - m_b|² + tr(A + B - 2 (A B)^(1/2)): squared 2-Wasserstein of Gaussians.

    The trace of the root is the sum of the square roots of the eigenvalues of
    A^(1/2) B A^(1/2), which are real and not negative even for rank-deficient A or B.

    Args:
      mean_a, mean_b: (d,).
      cov_a, cov_b: (d, d), symmetric, without negative eigenvalues.

    Raises:
      ValueError: the shapes do not fit, a number is not finite, or a matrix is not a
        covariance.
    """
    means = [np.asarray(mean, np.float64) for mean in (mean_a, mean_b)]
    covs = [np.asarray(cov, np.float64) for cov in (cov_a, cov_b)]
    size = means[0].shape[0] if means[0].ndim == 1 else 0
    shapes = {mean.shape for mean in means} | {cov.shape for cov in covs}
    if not size or shapes != {(size,), (size, size)}:
        raise ValueError(
            "means must be (d,) and covariances (d, d) of one d >= 1, got "
            f"{', '.join(str(array.shape) for array in (*means, *covs))}"
        )
    if not all(np.isfinite(array).all() for array in (*means, *covs)):
        raise ValueError("means and covariances must be finite")
    roots = [_root(cov) for cov in covs]
    # The singular values of A^(1/2) B^(1/2), without squaring its rounding errors.
    overlap = np.linalg.svd(roots[0] @ roots[1], compute_uv=False).sum()
    mean_gap = float(np.sum((means[0] - means[1]) ** 2))
    spread = float(np.trace(covs[0]) + np.trace(covs[1]) - 2 * overlap)
    return mean_gap + max(spread, 0.0)


def kernel_distance(features_a: np.ndarray, features_b: np.ndarray) -> Kernel:
    """Unbiased squared MMD with k(x, y) = (x·y/d + 1)³, and its standard error.

        mean_{i≠j} k(a_i, a_j) + mean_{i≠j} k(b_i, b_j) - 2 mean_{ij} k(a_i, b_j)

    It may be negative. The standard error is that of the two-sample jackknife. If both
    samples have the same distribution, the estimate is degenerate and the error is
    somewhat too large.

    Args:
      features_a, features_b: (n, d) and (m, d), n and m >= 3.
    """
    first = _samples("features_a", features_a, minimum=3)
    second = _samples("features_b", features_b, minimum=3)
    n, m = len(first), len(second)
    within_a, within_b = _kernel(first, first), _kernel(second, second)
    across = _kernel(first, second)
    np.fill_diagonal(within_a, 0)
    np.fill_diagonal(within_b, 0)
    sums = within_a.sum(), within_b.sum(), across.sum()

    def distance(a: Any, b: Any, c: Any, n: int, m: int) -> Any:
        return a / (n * (n - 1)) + b / (m * (m - 1)) - 2 * c / (n * m)

    without_a = distance(
        sums[0] - 2 * within_a.sum(1), sums[1], sums[2] - across.sum(1), n - 1, m
    )
    without_b = distance(
        sums[0], sums[1] - 2 * within_b.sum(1), sums[2] - across.sum(0), n, m - 1
    )
    variance = (n - 1) * np.var(without_a) + (m - 1) * np.var(without_b)
    return Kernel(float(distance(*sums, n, m)), float(np.sqrt(variance)))


def nearest_distances(images: np.ndarray, real: np.ndarray) -> np.ndarray:
    """(n,) float64: the distance of each image to the nearest real one.

    It is the root mean square over the pixels, in the units of the images.

    Args:
      images: (n, ...).
      real: (m, ...) of the same shape of one image.
    """
    points = _samples("images", images.reshape(len(images), -1), minimum=1)
    real_points = _samples("real", real.reshape(len(real), -1), minimum=1)
    squares = (
        (points**2).sum(1)[:, None]
        + (real_points**2).sum(1)
        - 2 * points @ real_points.T
    ).min(axis=1)
    return np.sqrt(np.maximum(squares, 0) / points.shape[1])


def _samples(name: str, values: np.ndarray, minimum: int = 2) -> np.ndarray:
    points = np.asarray(values, np.float64)
    if points.ndim != 2 or len(points) < minimum:
        raise ValueError(
            f"{name} must be at least {minimum} rows of numbers, got the shape "
            f"{points.shape}"
        )
    return points


def _root(cov: np.ndarray) -> np.ndarray:
    """The symmetric square root of a covariance."""
    values, vectors = np.linalg.eigh(cov)
    slack = 1e-6 * max(float(np.abs(values).max()), 1e-300)
    if not np.allclose(cov, cov.T, atol=slack) or values.min() < -slack:
        raise ValueError(
            "a covariance must be symmetric without negative eigenvalues; the least "
            f"is {values.min():g}"
        )
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a @ b.T / a.shape[1] + 1) ** 3
