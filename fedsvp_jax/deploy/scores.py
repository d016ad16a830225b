"""Scores of a federation's model over the test rows of all sites (P23).

After the last round each site counts its test rows by true class and by what the model
says of them, adds its share of discrete Gaussian noise, and masks the counts as it
masks an upload. The server opens their sum alone:

    count_rows       of one site, which `answer` notes in its log, noises and masks
    estimate_scores  what the sum says: AUC, accuracy and the most frequent class,
                     with intervals of the rows' and the noise's spread

A test row trained nothing, so the count is all that it moves; it is given as much noise
as all rounds of training together give a training row. So one ε holds for both.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.files import Record
from fedsvp_jax.data.tables.scores import ERRORS, SHARES, auc_variance
from fedsvp_jax.mechanisms.grid import Grid, grid_step


class ScoreRelease(NamedTuple):
    """The one release of test rows that all sites agreed to.

    Attributes:
      classes: C, of the schema.
      multiplier: z = (Σ 1/z_t²)^(-1/2) over the uploads of a client's training.
      share_std: of a site's noise on each count, zΔ/√(K − h). A row moves the counts by
        Δ (L2): 1 where it is left out, √2 where it is replaced, times the rows of a
        person.
      grid: of masked numbers, for counts that lie Δ apart (P17). Its norm is the rows
        of a site that are counted, the first by position.
      zeros: (C, bins) float32: by class, and of two by twentieths of the second's
        probability, of more by the class that is predicted.
      relation: neighbours.
    """

    classes: Sequence[str]
    multiplier: float
    share_std: float
    grid: Grid
    zeros: np.ndarray
    relation: str

    def count_rows(self, chances: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The counts of a site's rows, like `zeros`; they must not leave.

        Args:
          chances: (n, C) probabilities.
          labels: (n,) in [0, C).
        """
        table, limit = self.zeros.copy(), int(self.grid.norm)
        places = chances.argmax(1)
        if len(self.classes) == 2:  # 1/2 is the first class's, as argmax has it
            places = np.ceil(chances[:, 1] * table.shape[1]).astype(int).clip(1) - 1
        np.add.at(table, (labels[:limit], places[:limit]), 1)
        return table

    def estimate_scores(self, total: np.ndarray, sites: int) -> Record:
        """What may be published of the sum of so many sites' shares.

        A score is the root θ of T(θ), and its interval all θ with |T(θ)| ≤ 1.96·SE(θ)
        (Fieller 1954), so noise in a divisor counts too. With counts c of noise
        variance s² each, and N of them:

            accuracy   T = Σ (1[right] − θ) c
                       SE² = Nθ(1 − θ) + s² Σ (1[right] − θ)²
            AUC        T = Σ W c₁ᵢ c₀ⱼ,  W = 1[i > j] + 1[i = j]/2 − θ
                       SE² = that of Hanley and McNeil (1982) + s² (|Wc₀|² + |Wᵀc₁|²)

        Noise in c makes the last term larger than it is, so that the product of two
        noises is covered. The AUC is that of probabilities rounded to twentieths.

        Returns:
          sites, rows; accuracy and, of two classes, AUC: [value, the two ends of its 95
          % interval]; guessing, the share of the class `most_frequent`; the counts,
          and noise_std of each.
        """
        counts = total * float(grid_step(self.grid, jnp.float32(self.share_std)))
        variance = sites * self.share_std**2
        by_class, rows = counts.sum(1), max(counts.sum(), 1)
        number, bins = counts.shape
        thetas = SHARES[:, None, None]

        def estimate(slopes: np.ndarray, error: np.ndarray, degree: int) -> list[float]:
            """(θ where T is nearest to 0, ends of all likely θ), by the slopes of T."""
            excess = np.abs((slopes * counts).sum((1, 2))) / degree
            excess /= np.sqrt(error + variance * (slopes**2).sum((1, 2)))
            likely = np.flatnonzero(excess <= max(ERRORS, excess.min()))
            return SHARES[[excess.argmin(), likely[0], likely[-1]]].tolist()

        right = np.arange(bins) * number // bins == np.arange(number)[:, None]
        error = rows * SHARES * (1 - SHARES)
        scores = {"accuracy": estimate(right - thetas, error, 1)}
        if number == 2:
            weights = np.tri(bins, k=-1) + np.eye(bins) / 2 - thetas
            slopes = np.stack([counts[1] @ weights, weights @ counts[0]], 1)
            zeros, ones = by_class.clip(1)
            error = auc_variance(SHARES, ones, zeros) * (ones * zeros) ** 2
            scores["AUC"] = estimate(slopes, error, 2)
        return {
            "sites": sites,
            "rows": round(rows),
            "guessing": float(by_class.max() / rows),
            "most_frequent": self.classes[by_class.argmax()],
            "counts": counts.tolist(),
            "noise_std": variance**0.5,
            "relation": self.relation,
            **scores,
        }
