"""Distances of generated images from real ones, in the features of a network.

The Fréchet distance compares two Gaussian fits (Heusel et al. 2017, arXiv 1706.08500).
The kernel distance compares all moments up to the third and has no bias on small
samples, unlike the Fréchet distance (Bińkowski et al. 2018, arXiv 1801.01401). They are
called FID and KID only with the features of Inception-v3's last pooling, which are not
computed here.
"""

from typing import Any

import numpy as np


def frechet_distance(features_a: np.ndarray, features_b: np.ndarray) -> float:
    """|m_a - m_b|² + tr(A + B - 2 (A B)^(1/2)): squared 2-Wasserstein of Gaussians.

    m and A are the mean and the covariance of a sample. With A = RᵀR and B = SᵀS the
    trace of the root is the sum of the singular values of R Sᵀ, so that no root of a
    matrix is taken and no rank is needed.

    Args:
      features_a, features_b: (n, d) and (m, d), n and m >= 2.
    """
    means = [sample.mean(axis=0) for sample in (features_a, features_b)]
    first, second = (
        np.linalg.qr((sample - mean) / np.sqrt(len(sample) - 1)).R
        for sample, mean in zip((features_a, features_b), means, strict=True)
    )
    overlap = np.linalg.svd(first @ second.T, compute_uv=False).sum()
    spread = np.sum(first**2) + np.sum(second**2) - 2 * overlap
    return float(np.sum((means[0] - means[1]) ** 2) + max(spread, 0.0))


def kernel_distance(
    features_a: np.ndarray, features_b: np.ndarray
) -> tuple[float, float]:
    """Unbiased squared MMD with k(x, y) = (x·y/d + 1)³, and its standard error.

        mean_{i≠j} k(a_i, a_j) + mean_{i≠j} k(b_i, b_j) - 2 mean_{ij} k(a_i, b_j)

    It may be negative. The standard error is that of the two-sample jackknife. If both
    samples have the same distribution, the estimate is degenerate and the error is
    somewhat too large.

    Args:
      features_a, features_b: (n, d) and (m, d), n and m >= 3.
    """
    from sklearn.metrics.pairwise import polynomial_kernel

    n, m = len(features_a), len(features_b)
    within_a, within_b = polynomial_kernel(features_a), polynomial_kernel(features_b)
    across = polynomial_kernel(features_a, features_b)
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
    return float(distance(*sums, n, m)), float(np.sqrt(variance))
