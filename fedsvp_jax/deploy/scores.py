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

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsvp_jax.core.files import Record
from fedsvp_jax.data.tables.scores import auc_variance
from fedsvp_jax.mechanisms.discrete_gaussian import Words, step_variance, wrapped

from .noise import add_noise

_BINS = 20  # of the second class's probability
_ERRORS = 1.96  # standard errors of a 95 % interval
_SHARES = np.linspace(0, 1, 1001)  # that an interval may hold


class ScoreRelease(NamedTuple):
    """The one release of test rows that all sites agreed to.

    Attributes:
      classes: C, of the schema.
      multiplier: z = (Σ 1/z_t²)^(-1/2) over the uploads of a client's training.
      sensitivity: Δ, how far one row moves the counts (L2): 1 where it is left out, √2
        where it is replaced, times the rows of a person.
      share_std: of a site's noise on each count, zΔ/√(K − h).
      step: of the grid, a power of two of 1 at most.
      bits: b, of a masked number.
      most_rows: of a site that are counted, the first by position.
      epsilon, delta: of a row.
      relation: neighbours.
    """

    classes: Sequence[str]
    multiplier: float
    sensitivity: float
    share_std: float
    step: float
    bits: int
    most_rows: int
    epsilon: float
    delta: float
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
        places = chances.argmax(1)
        if len(self.classes) == 2:  # 1/2 is the first class's, as argmax has it
            places = np.clip(np.ceil(chances[:, 1] * _BINS).astype(int) - 1, 0, None)
        table = np.zeros(self.shape, np.float32)
        np.add.at(table, (labels[: self.most_rows], places[: self.most_rows]), 1)
        return table

    def share(self, counts: np.ndarray, words: Words) -> np.ndarray:
        """A site's part of the sum: int64 of `shape`, counts/γ with noise, modulo 2^b.

        1/γ is a whole number, so nothing is rounded.
        """
        numbers = counts.ravel().astype(np.int64) * int(1 / self.step)
        add_noise(numbers, step_variance(self.share_std, self.step), words)
        return wrapped(numbers, self.bits).reshape(self.shape)

    def scores(self, total: np.ndarray, sites: int) -> Record:
        """What may be published of the sum of so many sites' shares.

        A score is the root θ of T(θ), its interval all θ with |T(θ)| ≤ 1.96·SE(θ)
        (Fieller 1954), so noise in a divisor counts too. With counts c of noise variance
        s² each, and N of them:

            accuracy   T = Σ (1[right] − θ) c
                       SE² = Nθ(1 − θ) + s² Σ (1[right] − θ)²
            AUC        T = Σ (1[i > j] + 1[i = j]/2 − θ) c₁ᵢ c₀ⱼ,  W the bracket
                       SE² = that of Hanley and McNeil (1982) + s² (|Wc₀|² + |Wᵀc₁|²)

        Noise in c makes the last term larger than it is, so that the product of two
        noises is covered. The AUC is that of probabilities rounded to twentieths.

        Returns:
          sites, rows; accuracy, guessing (of the class `most_frequent`) and, of two
          classes, auc, each with its 95 % interval; counts, noise_std of each.
        """
        counts, variance = total * self.step, sites * self.share_std**2
        classes, bins = self.shape
        rows = max(counts.sum(), 1.0)

        def share_of(mask: np.ndarray) -> tuple[float, list[float]]:
            spread = mask.sum() * (1 - _SHARES) ** 2 + (~mask).sum() * _SHARES**2
            error = rows * _SHARES * (1 - _SHARES) + variance * spread
            return _estimate(counts[mask].sum() - _SHARES * counts.sum(), error)

        labels = np.arange(classes)[:, None]
        right = np.arange(bins) * classes // bins == labels
        frequent = int(counts.sum(1).argmax())
        scores = {
            "accuracy": share_of(right),
            "guessing": share_of(np.broadcast_to(labels == frequent, self.shape)),
        }
        if classes == 2:
            others, ones = counts
            above = np.tri(bins, k=-1) + np.eye(bins) / 2
            pairs = above - _SHARES[:, None, None]
            by_one, by_other = pairs @ others, ones @ pairs
            sizes = np.maximum(counts.sum(1), 1)
            error = auc_variance(_SHARES, sizes[1], sizes[0]) * sizes.prod() ** 2
            error += variance * ((by_one**2).sum(1) + (by_other**2).sum(1))
            scores["auc"] = _estimate(by_one @ ones, error)
        values = {name: value for name, (value, _) in scores.items()}
        ends = {f"{name}_interval": interval for name, (_, interval) in scores.items()}
        return {
            "sites": sites,
            "rows": round(float(counts.sum())),
            **values,
            **ends,
            "most_frequent": self.classes[frequent],
            "counts": counts.tolist(),
            "noise_std": math.sqrt(variance),
        }


def sentence(scores: Record, sites: int) -> str:
    """What a coordinator reads of the scores: of how many of all sites, and how good."""
    names = {"accuracy": "accuracy", "guessing": "always “{most_frequent}”"}
    if "auc" in scores:
        names = {"auc": "AUC", **names}
    parts = [
        "{} {:.2f} (95 %: {:.2f} to {:.2f})".format(
            words.format(**scores), scores[name], *scores[f"{name}_interval"]
        )
        for name, words in names.items()
    ]
    how_many = "all" if scores["sites"] == sites else f"{scores['sites']} of"
    rows = f"{how_many} {sites} hospitals, about {scores['rows']} test rows, noise "
    return f"{rows}included: {', '.join(parts)}"


def _estimate(excess: np.ndarray, variance: np.ndarray) -> tuple[float, list[float]]:
    """(θ where T is nearest to 0, the ends of all likely θ), of T and SE² by θ."""
    errors = np.abs(excess) / np.sqrt(variance)
    likely = _SHARES[errors <= max(_ERRORS, errors.min())]
    return float(_SHARES[np.abs(excess).argmin()]), [float(likely[0]), float(likely[-1])]
