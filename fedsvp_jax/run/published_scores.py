"""Scores of test rows that may be published: counts with noise (P19, P23).

Test rows are counted by true class and by what the model says of them, and the counts
get discrete Gaussian noise. No client trains on a test row, so the counts are all that
it moves. In a simulation the noise gives them the ε and δ that the run promises a
training row, less bounds that were bought. In a federation the sites share it, and it
is as much as all rounds together give.

    ScoreRelease    counts a site's rows, and reads scores off a sum that was noised
    noised_scores   of one run
    describe_scores in words
"""

import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jinja2
import numpy as np

from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.accounting.participation import SEED
from fedsvp_jax.core import prng
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.losses import ExampleLoss
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.tables.characteristics import describe, num_parts, parts_of
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn
from fedsvp_jax.data.tables.scores import SHARES, auc_variance, root_interval
from fedsvp_jax.federation import Program
from fedsvp_jax.federation.run_digest import KEYED
from fedsvp_jax.mechanisms.grid import Grid, grid_step, noised_steps, rounding_share

_RECORD = r"(replace|leave) (one record|all rows of a person)"
_LEVELS = 8  # of intervals of the log odds, where classes are two
_PLACES = 2**_LEVELS
_HALFWAY = 4.0  # the log odds that lie in the middle between 0 and infinity
_BITS = 28  # of the grid: a step is below 2^-23 of all rows and the noise together
SPLIT = "which rows are for the test follows none of their values but the given client"
_ASSUMPTIONS = (
    "who counts the test rows sees them, and is trusted",
    SPLIT,
    "nothing else that is scored on them is published",
)
_ONE_ROW = "a person has one row, for the test or at one client"
_ONE_SIDE = "whose a row is, is given, and all rows of a person are on one side"
_NOMINAL = "nominal"  # how a reason begins


def check(program: Program, loss: ExampleLoss | None, schema: Schema | None) -> None:
    """Refuses scores that the ε of the run would not cover.

    Raises:
      ValueError: names the setting and what to do.
    """
    (config,) = program.configs
    if not config.publish_scores:
        return
    if config.total_epsilon is None:
        raise ValueError("publish_scores needs total_epsilon, the ε that its noise has")
    score_relation(program.mechanism.basis.relation, None, program.data.num_classes, 0)
    if config.publish_columns and schema is None:
        raise ValueError("publish_columns needs a table whose columns a schema states")
    if loss is not None:
        raise ValueError(
            "publish_scores must be left out with a loss of your own, which predicts "
            "no classes"
        )


def score_relation(
    relation: str, rows_per_person: int | None, num_classes: int, num_columns: int
) -> tuple[str, Any]:
    """The relation of training, of test rows; and Δ, how far it moves counts (L2).

    Δ is 1 where a row is left out, √2 where it is replaced, times the rows of a person,
    and times √(l + k): a row is counted at l levels, 8 of two classes and 1 of more,
    and once by each of k columns.

    Raises:
      ValueError: it is of a whole client.
    """
    match = re.match(_RECORD, relation)
    if match is None:
        raise ValueError(
            f"publish_scores hides one test row, and this run is to hide more: "
            f"{relation}; leave it out, or test on rows of people who agreed "
            "(--test_data)"
        )
    verb, rows = match.groups()
    levels = _LEVELS if num_classes == 2 else 1
    squares = (1 + (verb == "replace")) * (levels + num_columns)
    relation = f"{verb} {rows} for the test".replace("leave", "leave out")
    return relation, (rows_per_person or 1) * squares**0.5


class ScoreRelease(NamedTuple):
    """The release of the test rows of one site or several.

    Attributes:
      classes: names of the C classes, or their numbers.
      multiplier: z of the noise of all sites but the colluders.
      share_std: of a site's noise on each count: zΔ, over √(K − h) where K sites share
        it and h collude.
      grid: of counts with noise. Its norm is the rows of a site that are counted, the
        first by position.
      relation: neighbours.
      columns: the features whose parts are counted, too, by name.
    """

    classes: Sequence[str] | range
    multiplier: float
    share_std: float
    grid: Grid
    relation: str
    columns: Mapping[str, SchemaColumn] = {}

    @property
    def sums(self) -> np.ndarray:
        """(counts, places): which places each count of a class is the sum of.

        Of more than two classes, a place is the class that is predicted, counted alone.
        Of two it is one of 256 intervals of the log odds x of the second, of equal
        length in x/(4 + |x|); they are counted in halves, quarters and so on.
        """
        if len(self.classes) > 2:
            return np.eye(len(self.classes))
        widths = 2 ** np.arange(_LEVELS)[::-1]
        return np.concatenate([np.eye(_PLACES // w).repeat(w, 1) for w in widths])

    @property
    def zeros(self) -> np.ndarray:
        """(C, counts) float32."""
        widths = [len(self.sums), *map(num_parts, self.columns.values())]
        return np.zeros((len(self.classes), sum(widths)), np.float32)

    @property
    def step(self) -> float:
        """γ of the grid."""
        return float(grid_step(self.grid, jnp.float32(self.share_std)))

    def count_rows(
        self, chances: np.ndarray, labels: np.ndarray, inputs: np.ndarray
    ) -> np.ndarray:
        """The counts of a site's rows, like `zeros`; they must not leave.

        Args:
          chances: (n, C) probabilities.
          labels: (n,) in [0, C).
          inputs: (n, f) features.
        """
        sums, limit = self.sums, int(self.grid.norm)
        places = chances.argmax(1)
        if len(self.classes) == 2:  # 1/2 is the first class's, as argmax has it
            odds = np.diff(np.log(chances.clip(np.finfo(np.float32).tiny)))[:, 0]
            shares = (1 + odds / (_HALFWAY + abs(odds))) / 2
            places = np.ceil(shares * _PLACES).astype(int).clip(1) - 1
        of_class = np.eye(len(self.classes))[labels[:limit]].T
        by_score = of_class @ np.eye(sums.shape[1])[places[:limit]] @ sums.T
        by_column = of_class @ parts_of(self.columns, inputs[:limit])
        return np.hstack([by_score, by_column]).astype(np.float32)

    def estimate_scores(self, total: np.ndarray, sites: int) -> Record:
        """What may be published of the sum of so many sites' shares.

        Least squares give the counts c of the places, of covariance s²(AᵀA)⁻¹ by class,
        for counts Ac with noise of variance s² each (`sums`; Hay, Rastogi, Miklau and
        Suciu 2010). A score is the root θ of T(θ), and its interval all θ with |T(θ)| ≤
        1.96·SE(θ) (Fieller 1954), so noise in a divisor counts too. Of N rows:

            accuracy   T = Σ (1[right] − θ) c
                       SE² = Nθ(1 − θ) + Var
            share      T = Σ (1[second class] − θ) c, with the same SE²
            mean       T = Σ (p − θ) c of a place's p, SE² = Σ (p − θ)² c + Var
            AUC        T = Σ W c₁ᵢ c₀ⱼ,  W = 1[i > j] + 1[i = j]/2 − θ
                       SE² = that of Hanley and McNeil (1982) + Var

        Var is of T with the slopes dT/dc held. Noise in c makes it larger than it is,
        so that the product of two noises is covered. Rows of a place tie in the AUC.

        Returns:
          sites, rows; accuracy and, of two classes, AUC, and share and mean (of the
          probabilities) of the second: [value, the two ends of its 95 % interval];
          guessing, the share of the class `most_frequent`; the counts, and noise_std of
          each.
        """
        sums, scale = self.sums, 1.0
        if distance := self.grid.apart:  # where `on_grid` has shrunk each count
            sensitivity = float(distance(jnp.float32(1)))
            scale -= rounding_share(sensitivity, self.step, total.size)
        variance = sites * (self.share_std / scale) ** 2
        noised, by_column = np.split(total * self.step / scale, [len(sums)], axis=1)
        inverse = np.linalg.inv(sums.T @ sums)
        counts, covariance = noised @ sums @ inverse, variance * inverse
        by_class, rows = counts.sum(1), max(counts.sum(), 1)
        number, bins = counts.shape

        estimate = partial(root_interval, counts=counts, covariance=covariance)
        right = np.arange(bins) * number // bins == np.arange(number)[:, None]
        of_rows = rows * SHARES * (1 - SHARES)
        scores = {"accuracy": estimate(right, 1, of_rows, 1)}
        if number == 2:
            wins = np.tri(bins, k=-1) + np.eye(bins) / 2
            slopes = np.stack([counts[1] @ wins, wins @ counts[0]])
            zeros, ones = by_class.clip(1)
            error = auc_variance(SHARES, ones, zeros) * (ones * zeros) ** 2
            scores["AUC"] = estimate(slopes, by_class[::-1, None], error, 2)
            middle = (2 * np.arange(bins) + 1) / bins - 1
            odds = _HALFWAY * middle / (1 - abs(middle))
            chances = (1 + np.tanh(odds / 2)) / 2
            scores["share"] = estimate([[0], [1]], 1, of_rows, 1)
            off = (chances[:, None] - SHARES) ** 2
            error = (counts.sum(0) @ off).clip(0)
            scores["mean"] = estimate(chances, 1, error, 1)
        return {
            "sites": sites,
            "rows": round(rows),
            "guessing": by_class.clip(0, rows).max() / rows,
            "most_frequent": self.classes[by_class.argmax()],
            "counts": noised.tolist(),
            "noise_std": variance**0.5,
            "relation": self.relation,
            **scores,
            "columns": describe(self.columns, by_column, variance),
        }


def noised_scores(
    chances: np.ndarray,
    labels: np.ndarray,
    classes: Sequence[str] | None,
    columns: Mapping[str, SchemaColumn],
    program: Program,
    summary: Record,
) -> Record:
    """The scores that may be published, as summary.json holds them.

    Args:
      chances: (n, C) probabilities of the final model for the test rows.
      labels: (n,) in [0, C).
      classes: their names, or None.
      columns: as of `ScoreRelease`.
      program: of one cell.
      summary: of the run, with params_sha256 and, last of its guarantees, the promise.

    Returns:
      `ScoreRelease.estimate_scores`, and the claim: epsilon, delta, status, adversary,
      relation, assumptions, and its `risk`.
    """
    (config,), data, promise = program.configs, program.data, summary["guarantees"][-1]
    relation, sensitivity = score_relation(
        program.mechanism.basis.relation,
        data.rows_per_person,
        chances.shape[1],
        len(columns),
    )
    # A test row moved the bounds too.
    claim = promise["epsilon"], promise["delta"]
    multiplier, risk = tradeoff.of_gaussian(*claim, data.bought)
    rows, std = len(labels), multiplier * sensitivity
    release = ScoreRelease(
        classes or range(chances.shape[1]),
        multiplier,
        std,
        Grid(_BITS, 1, rows, lambda _: sensitivity),
        relation,
        columns,
    )
    # Another model or other test rows are another release, with noise of its own.
    identity = [
        summary["params_sha256"],
        data.fingerprint,
        config.validation_examples,
        *claim,
        relation,
        *columns,
    ]
    key = prng.stream_key(cell_of(program.cells.root, 0), prng.Stream.SCORES)
    seed = [*jax.random.key_data(key).tolist(), *json.dumps(identity).encode()]
    counts = release.count_rows(chances, labels, np.asarray(data.test.inputs))
    noised, _ = noised_steps(
        counts.ravel(), seed, std, release.step, rows, sensitivity, _BITS
    )
    reasons = [*_ASSUMPTIONS, _ONE_ROW if data.rows_per_person is None else _ONE_SIDE]
    reasons += [
        reason
        for reason in promise["assumptions"].split("; ")
        if reason.startswith((SEED, KEYED, _NOMINAL))
    ]
    return {
        **promise,
        **release.estimate_scores(noised.reshape(counts.shape), 1),
        "rows": rows,
        "adversary": "public",
        "method": "discrete Gaussian noise on counts",
        "assumptions": "; ".join(reasons),
        "risk": risk,
    }


def describe_scores(scores: Record) -> str:
    """What `ScoreRelease.estimate_scores`, or a part of it, says: a number whose
    interval is wide is left out.
    """
    text = pathlib.Path(__file__).with_suffix(".txt").read_text("utf-8")
    return jinja2.Template(text, trim_blocks=True).render(scores=scores)
