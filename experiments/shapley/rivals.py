"""Estimators of others, on games that are known: shapiq's, and two of our writing.

Every function takes a `Known` game, the number of coalitions that may be asked beside
none and all, and a seed, and returns the values. shapiq counts these two.

`regression_adjusted` and `eig` were written here from their papers' descriptions; they
are not their authors' code.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedsvp_jax.algorithm.coalitions import coalition_rows


class Known(NamedTuple):
    """A game whose 2^N utilities are known.

    Attributes:
      worth: (2^N,) by bitmask.
      shapley: (2^N, N) the linear map to the values.
    """

    worth: np.ndarray
    shapley: np.ndarray

    @property
    def players(self) -> int:
        """N."""
        return len(self.worth).bit_length() - 1

    def asked(self, coalitions: np.ndarray) -> np.ndarray:
        """Utilities of coalitions (m, N), as shapiq asks for them."""
        bits = 2 ** np.arange(self.players)
        rows = np.atleast_2d(np.asarray(coalitions)).astype(int)
        return np.asarray(self.worth[rows @ bits])


Rival = Callable[[Known, int, int], np.ndarray | None]


def _shapiq(name: str, **settings: Any) -> Rival:
    """shapiq's approximator; None where this version of shapiq has none such."""

    def values(game: Known, asked: int, seed: int) -> np.ndarray | None:
        approximator = importlib.import_module("shapiq.approximator")
        if not hasattr(approximator, name):
            return None
        made = getattr(approximator, name)(
            n=game.players, random_state=seed, **settings
        )
        found = made.approximate(asked + 2, game.asked)
        return np.asarray([found[(a,)] for a in range(game.players)])

    return values


def regression_adjusted(game: Known, asked: int, seed: int) -> np.ndarray:
    """A line fitted to one half of the coalitions, corrected by the other, both ways.

    Of coalitions drawn in pairs of complements, of uniform size. The fit's values are
    known, and the other half's residuals estimate what they lack without bias:
    U(T) - U(T') weighted by one over T's chance, as in `fedsvp_jax.paired`.

    From the description of Witter, Liu and Musco (arXiv 2506.11849); not their code,
    and with a line in the place of trees, for which so few coalitions do not suffice.
    """
    draw, number = np.random.default_rng(seed), game.players
    pairs = max(asked // 2, 2)
    sizes = draw.integers(1, number, pairs)
    rows = np.asarray([np.argsort(draw.random(number)) < s for s in sizes])
    empty, full = game.worth[0], game.worth[-1]
    values = np.zeros(number)
    for fold in (0, 1):
        fit, rest = rows[fold::2], rows[1 - fold :: 2]
        x = np.concatenate([fit, ~fit]) - 0.5
        y = game.asked(np.concatenate([fit, ~fit])) - (empty + full) / 2
        slope = x.T @ np.linalg.solve(x @ x.T + 0.1 * np.eye(len(x)), y)
        slope = slope + ((full - empty) - slope.sum()) / number
        size = rest.sum(1, keepdims=True)
        signs = np.where(rest, 1 / size, -1 / (number - size))
        lacking = game.asked(rest) - game.asked(~rest) - (2.0 * rest - 1) @ slope
        more = (number - 1) / 2 * np.mean(lacking[:, None] * signs, axis=0)
        values += (slope + more) / 2
    return values


def eig(game: Known, asked: int, seed: int) -> np.ndarray:
    """A Gaussian process on coalitions, asked one by one where the values gain most.

    Kernel exp(-Hamming distance/(l N)) with a straight line as prior mean (by size);
    l is the likeliest of four after every answer. It starts with single players.

    From the description of ShaplEIG (arXiv 2606.02247); not its code.
    """
    del seed
    number = game.players
    rows = coalition_rows(range(2**number), number)
    distance = (rows[:, None] != rows[None]).sum(-1) / number
    line = game.worth[0] + (game.worth[-1] - game.worth[0]) * rows.mean(1)
    known = [0, 2**number - 1, *(1 << a for a in range(number))][: asked + 2]
    kernels = [np.exp(-distance / scale) for scale in (0.3, 1.0, 3.0, 10.0)]
    functional = game.shapley.T

    def likelihood(kernel: np.ndarray) -> float:
        inner = kernel[np.ix_(known, known)] + 1e-4 * np.eye(len(known))
        y = (game.worth - line)[known]
        fit = y @ np.linalg.solve(inner, y) / len(y)
        return float(-len(y) * np.log(fit + 1e-12) - np.linalg.slogdet(inner)[1])

    while True:
        kernel = max(kernels, key=likelihood)
        inner = kernel[np.ix_(known, known)] + 1e-4 * np.eye(len(known))
        cross = kernel[:, known]
        if len(known) >= asked + 2:
            y = (game.worth - line)[known]
            return np.asarray(functional @ (line + cross @ np.linalg.solve(inner, y)))
        left = kernel - cross @ np.linalg.solve(inner, cross.T)
        gain = np.square(functional @ left).sum(0) / (np.diag(left) + 1e-4)
        gain[known] = -1
        known.append(int(np.argmax(gain)))


RIVALS: dict[str, Rival] = {
    "KernelSHAP, paired (shapiq)": _shapiq("KernelSHAP", pairing_trick=True),
    "LeverageSHAP (shapiq)": _shapiq("LeverageSHAP"),
    "OddSHAP (shapiq)": _shapiq("OddSHAP"),
    "ProxySPEX (shapiq)": _shapiq("ProxySPEX", index="SV", max_order=1, hpo=False),
    "regression MSR, trees (shapiq)": _shapiq("RegressionMSR", index="SV"),
    "permutations (shapiq)": _shapiq("PermutationSamplingSV"),
    "SVARM (shapiq)": _shapiq("SVARM"),
    "regression-adjusted (our code)": regression_adjusted,
    "ShaplEIG's rule (our code)": eig,
}
