"""δ(ε) of n Gaussians on Poisson batches by three ways that know no grid and no FFT.

`by_inversion`, with K(t) = ln E[e^(tL)] of one privacy loss L and any a > 0:

    δ(ε) = 1/π ∫ Re exp(n·K(a + iu) − (a + iu)·ε) / ((a + iu)(a + iu + 1)) du, u > 0

(Abate and Whitt 1992) is summed at steps so small that halving them changes nothing, at
the saddle point a, where the integrand is about as large as δ: δ has as many digits at
1e-15 as at .1. `of_one` is closed; `by_sampling` draws tilted losses and weighs them.
"""

import math

import numpy as np
from scipy import optimize, special

ACCURACY = 1e-7
MOST_WORK = 2e6  # complex exponentials of one sum
MOST_DRAWS = 1.2e6


class Unresolved(Exception):
    """It would take too many nodes or draws."""


def by_inversion(
    z: float, q: float, n: int, epsilon: float, delta: float, added: bool
) -> float:
    """δ(ε) where a record is added, or removed, to 1e-6 of it; 0 if far below δ.

    Outcomes of a probability of 1e-9·δ in all are left out.
    """
    reach = -special.ndtri(1e-9 * delta / n) * z

    def nodes(step: float) -> tuple[np.ndarray, np.ndarray]:
        x = np.arange(-reach, 1 + reach, step)
        mass = np.exp(-(x**2) / (2 * z * z)) * step / (z * math.sqrt(2 * math.pi))
        ratio = 1 + q * np.expm1((2 * x - 1) / (2 * z * z))
        loss = np.log1p(q * np.expm1((2 * x - 1) / (2 * z * z)))
        return (-loss, mass) if added else (loss, mass * ratio)

    loss, mass = nodes(min(z, z * z) / 4)

    def cumulant(t: float) -> float:
        exponent = t * loss
        top = exponent.max()
        return n * (top + math.log(mass @ np.exp(exponent - top)))

    def height(log_t: float) -> float:
        t = math.exp(log_t)
        return cumulant(t) - t * epsilon - math.log(t) - math.log1p(t)

    ends = -12.0, math.log(1e9 / np.abs(loss).max())
    grid = np.linspace(*ends, 200)
    best = int(np.argmin([height(one) for one in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    a = math.exp(optimize.minimize_scalar(height, bounds=around, method="bounded").x)
    top = height(math.log(a))
    if added and top + math.log(a) + math.log1p(a) < math.log(delta / 2):  # Chernoff
        return 0.0

    def terms(u: np.ndarray, loss: np.ndarray, mass: np.ndarray) -> np.ndarray:
        t = a + 1j * u
        scale = (a * loss).max()
        moments = np.exp(np.outer(1j * u, loss)) @ (mass * np.exp(a * loss - scale))
        log_ratio = n * (np.log(moments) + scale) - t * epsilon - np.log(t * (t + 1))
        return np.real(np.exp(log_ratio - top))

    def total(step: float, fine: float) -> float:
        loss, mass = nodes(fine)
        keep = mass * np.exp(a * loss - (a * loss).max())
        chosen = keep > 1e-22 * keep.max()
        loss, mass = loss[chosen], mass[chosen]
        sums, at, rest = 0.5, 1, math.inf
        chunk = int(3e5 / len(loss)) + 16
        while rest > ACCURACY * abs(sums):  # what is left falls as 1/u² at least
            if at * len(loss) > MOST_WORK:
                raise Unresolved
            some = terms(step * np.arange(at, at + chunk), loss, mass)
            sums += some.sum()
            at += chunk
            rest = at * np.abs(some[chunk // 2 :]).max()
        return step * sums / math.pi

    steep = max(a, 1e-9)
    step, fine = steep / 2, min(z, z * z) / 4
    before = total(step, fine)
    for _ in range(14):
        step, fine = step / 2, fine / 1.5
        after = total(step, fine)
        if abs(after - before) < ACCURACY * abs(after):
            return after * math.exp(top)
        before = after
    raise Unresolved


def of_one(z: float, q: float, epsilon: float, added: bool) -> float:
    """δ(ε) of one Gaussian; the better test is a threshold on its outcome x."""
    phi, root = special.ndtr, -math.expm1(-epsilon)
    if not added:
        x = z * z * (epsilon + math.log((root + q * math.exp(-epsilon)) / q)) + 0.5
        tail = phi(-x / z)
        return q * phi((1 - x) / z) - (math.expm1(epsilon) + q) * tail
    if epsilon >= -math.log1p(-q):
        return 0.0
    x = z * z * (math.log((math.exp(-epsilon) - 1 + q) / q)) + 0.5
    return phi(x / z) * (1 - math.exp(epsilon) * (1 - q)) - math.exp(epsilon) * q * phi(
        (x - 1) / z
    )


def by_sampling(
    z: float, q: float, n: int, epsilon: float, added: bool
) -> tuple[float, float]:
    """δ(ε) and its standard error, of losses that are tilted to a sum of ε."""
    step = min(z, z * z) / 20
    edges = np.arange(-13 * z, 1 + 13 * z, step)

    def loss_of(x: np.ndarray) -> np.ndarray:
        loss = np.log1p(q * np.expm1((2 * x - 1) / (2 * z * z)))
        return -loss if added else loss

    def log_density(x: np.ndarray) -> np.ndarray:
        noise = -(x**2) / (2 * z * z) - math.log(z * math.sqrt(2 * math.pi))
        return noise if added else noise + loss_of(x)

    middle = (edges[1:] + edges[:-1]) / 2
    losses = loss_of(middle)
    low, high = -12.0, math.log(1e6 / np.abs(losses).max())
    for _ in range(50):
        half = (low + high) / 2
        log_mass = log_density(middle) + math.exp(half) * losses
        mass = np.exp(log_mass - log_mass.max())
        mass /= mass.sum()
        low, high = (low, half) if n * (mass @ losses) > epsilon else (half, high)
    log_drawn = np.log(np.maximum(mass, 1e-300) / step)
    rng, sums = np.random.default_rng(n), np.zeros(2)
    size, chunks = max(int(4e5 / n), 2), int(MOST_DRAWS / 4e5)
    for _ in range(chunks):
        cells = rng.choice(len(mass), (size, n), p=mass)
        x = edges[cells] + step * rng.random((size, n))
        weight = np.exp((log_density(x) - log_drawn[cells]).sum(1))
        values = weight * np.maximum(-np.expm1(epsilon - loss_of(x).sum(1)), 0)
        sums += [values.sum(), (values**2).sum()]
    number = size * chunks
    mean = sums[0] / number
    error = math.sqrt((sums[1] / number - mean**2) / number)
    if epsilon > 0 and error > mean / 10:
        raise Unresolved
    return mean, error
