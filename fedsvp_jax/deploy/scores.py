"""Scores of a federation's model over the test rows of all sites (P23).

After the last round each site counts its test rows by true class and by what the model
says of them, adds its share of discrete Gaussian noise, and masks the counts as it
masks an upload. The server opens their sum alone:

    share    a site's counts in steps of the grid, with its share of the noise
    scores   what the sum says: AUC, accuracy and the most frequent class, with
             intervals of the rows' and the noise's spread

A test row trained nothing, so the count is all that it moves; it is given as much noise
as all rounds of training together give a training row. So one ε holds for both.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsvp_jax.core.files import Record
from fedsvp_jax.data.tables.scores import auc_variance
from fedsvp_jax.mechanisms.discrete_gaussian import Words, step_variance, wrapped
from fedsvp_jax.mechanisms.grid import Grid

from .noise import add_noise

_BINS = 20  # of the second class's probability
_ERRORS = 1.96  # standard errors of a 95 % interval
_SHARES = np.linspace(0, 1, 1001)  # that an interval may hold


class ScoreRelease(NamedTuple):
    """The one release of test rows that all sites agreed to.

    Attributes:
      classes: C, of the schema.
      multiplier: z = (Σ 1/z_t²)^(-1/2) over the uploads of a client's training.
      share_std: of a site's noise on each count, zΔ/√(K − h). A row moves the counts by
        Δ (L2): 1 where it is left out, √2 where it is replaced, times the rows of a
        person.
      grid: of a masked number; `norm` rows of a site are counted, the first by position.
      step: of the grid, γ = 2^-n.
      relation: neighbours.
    """

    classes: Sequence[str]
    multiplier: float
    share_std: float
    grid: Grid
    step: float
    relation: str

    @property
    def shape(self) -> tuple[int, int]:
        """(C, twentieths of the second class's probability), or (C, C) from three."""
        number = len(self.classes)
        return number, _BINS if number == 2 else number

    def counts(self, chances: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The counts of a site's rows, float32 of `shape`; they must not leave.

        Args:
          chances: (n, C) probabilities.
          labels: (n,) in [0, C).
        """
        places, most = chances.argmax(1), int(self.grid.norm)
        if len(self.classes) == 2:  # 1/2 is the first class's, as argmax has it
            places = np.ceil(chances[:, 1] * _BINS).astype(int).clip(1) - 1
        table = np.zeros(self.shape, np.float32)
        np.add.at(table, (labels[:most], places[:most]), 1)
        return table

    def share(self, counts: np.ndarray, words: Words) -> np.ndarray:
        """A site's part of the sum: int64 of `shape`, counts/γ with noise, modulo 2^b.

        1/γ is a whole number, so nothing is rounded.
        """
        numbers = counts.ravel().astype(np.int64) * int(1 / self.step)
        add_noise(numbers, step_variance(self.share_std, self.step), words)
        return wrapped(numbers, self.grid.bits).reshape(self.shape)

    def scores(self, total: np.ndarray, sites: int) -> Record:
        """What may be published of the sum of so many sites' shares.

        A score is the root θ of T(θ), its interval all θ with |T(θ)| ≤ 1.96·SE(θ)
        (Fieller 1954), so noise in a divisor counts too. With counts c of noise variance
        s² each, and N of them:

            accuracy   T = Σ (1[right] − θ) c
                       SE² = Nθ(1 − θ) + s² Σ (1[right] − θ)²
            AUC        T = Σ W c₁ᵢ c₀ⱼ,  W = 1[i > j] + 1[i = j]/2 − θ
                       SE² = that of Hanley and McNeil (1982) + s² (|Wc₀|² + |Wᵀc₁|²)

        Noise in c makes the last term larger than it is, so that the product of two
        noises is covered. The AUC is that of probabilities rounded to twentieths.

        Returns:
          sites, rows; accuracy, guessing (of the class `most_frequent`) and, of two
          classes, AUC: each a value with the ends of its 95 % interval; the counts, and
          noise_std of each.
        """
        counts, variance = total * self.step, sites * self.share_std**2
        by_class, bins = counts.sum(1), np.arange(counts.shape[1])
        labels = np.arange(len(counts))[:, None]
        right = bins * len(counts) // len(bins) == labels
        frequent = (labels == by_class.argmax()) & (bins >= 0)
        thetas = _SHARES[:, None, None]

        def estimate(slopes: np.ndarray, error: np.ndarray, degree: int = 1) -> Record:
            """θ where T is nearest to 0, and the ends of all likely θ, by T's slopes."""
            excess = np.abs((slopes * counts).sum((1, 2))) / degree
            excess /= np.sqrt(error + variance * (slopes**2).sum((1, 2)))
            likely = _SHARES[excess <= max(_ERRORS, excess.min())].tolist()
            value = float(_SHARES[excess.argmin()])
            return {"value": value, "low": likely[0], "high": likely[-1]}

        of_rows = max(counts.sum(), 1) * _SHARES * (1 - _SHARES)
        scores = {
            "accuracy": estimate(right - thetas, of_rows),
            "guessing": estimate(frequent - thetas, of_rows),
        }
        if len(counts) == 2:
            weights = np.tri(len(bins), k=-1) + np.eye(len(bins)) / 2 - thetas
            slopes = np.stack([counts[1] @ weights, weights @ counts[0]], 1)
            zeros, ones = by_class.clip(1)
            of_pairs = auc_variance(_SHARES, ones, zeros) * (ones * zeros) ** 2
            scores = {"AUC": estimate(slopes, of_pairs, 2), **scores}
        return {
            "sites": sites,
            "rows": round(counts.sum()),
            "most_frequent": self.classes[by_class.argmax()],
            **scores,
            "counts": counts.tolist(),
            "noise_std": variance**0.5,
            "relation": self.relation,
        }


def sentence(scores: Record, sites: int) -> str:
    """What a coordinator reads of the scores, of so many sites that were asked."""
    parts = [
        "{} {value:.2f} (95 %: {low:.2f} to {high:.2f})".format(name, **score)
        for name, score in scores.items()
        if isinstance(score, dict)
    ]
    text = (
        "{sites} of {} hospitals, about {rows} test rows: {}; the intervals count the "
    )
    text += "noise, and guessing is always “{most_frequent}”"
    return text.format(sites, ", ".join(parts), **scores)
