"""H1: does the Shapley value of a record, or of an attribute, predict its risk?

A cell is a pool of records drawn by its seed. Values come from networks trained on
coalitions, the membership risk from other networks on random halves of the pool with
first weights of their own, so that no network counts for both.
"""

import dataclasses
import pathlib
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import paired, shapley
from fedsvp_jax.attacks import membership
from fedsvp_jax.data import preprocessing, sources
from fedsvp_jax.data.dataset import Dataset

from . import small_models

LEAST_RECORDS = 4  # of a class, whose mean risk is asked
PIXELS = 2  # images are averaged over squares of so many pixels a side


class Pool(NamedTuple):
    """Records, and others of the same kind on which utilities are measured."""

    inputs: np.ndarray  # (n, d) float32
    labels: np.ndarray  # (n,) int32
    test_inputs: np.ndarray
    test_labels: np.ndarray
    num_classes: int


@dataclasses.dataclass(frozen=True)
class Study:
    """What is drawn and how many networks are trained.

    Attributes:
      dataset: its name.
      records: n of a pool.
      random_labels: share of the pool whose labels are drawn at random.
      players: records, or classes (of equal or of Dirichlet(1) shares in the pool).
      pairs: coalitions and their complements of the records' game.
      halves: networks that tell the risk.
      test_records: that tell utilities.
    """

    dataset: str
    records: int = 100
    random_labels: float = 0.0
    players: Literal["records", "equal_classes", "uneven_classes"] = "records"
    pairs: int = 3000
    halves: int = 256
    test_records: int = 1000


def flat(inputs: np.ndarray) -> np.ndarray:
    """(n, d) float32: as a network takes them; images smaller by PIXELS a side."""
    scaled = np.asarray(preprocessing.normalize(jnp.asarray(inputs)))
    if scaled.ndim == 4:
        count, height, width, depth = scaled.shape
        squares = (count, height // PIXELS, PIXELS, width // PIXELS, PIXELS, depth)
        scaled = scaled.reshape(squares).mean((2, 4))
    return scaled.reshape(len(scaled), -1).astype(np.float32)


def draw_pool(study: Study, data: Dataset, seed: int) -> Pool:
    """The pool of a seed."""
    rng = np.random.default_rng((seed, study.records))
    classes = data.num_classes
    weights = None
    if study.players == "equal_classes":
        weights = np.full(classes, 1 / classes)
    elif study.players == "uneven_classes":
        weights = rng.dirichlet(np.ones(classes))

    def drawn(labels: np.ndarray, count: int) -> np.ndarray:
        chance = None
        if weights is not None:
            chance = (weights / np.bincount(labels, minlength=classes))[labels]
            chance /= chance.sum()
        return rng.choice(len(labels), count, replace=False, p=chance)

    rows = drawn(data.train_labels, study.records)
    test_rows = drawn(data.test_labels, study.test_records)
    labels = data.train_labels[rows].astype(np.int32)
    wrong = rng.permutation(len(labels))[: round(study.random_labels * len(labels))]
    labels[wrong] = rng.integers(classes, size=len(wrong))
    return Pool(
        flat(data.train_inputs[rows]),
        labels,
        flat(data.test_inputs[test_rows]),
        data.test_labels[test_rows].astype(np.int32),
        classes,
    )


def record_values(
    pairs: paired.Pairs, differences: np.ndarray, total: float
) -> np.ndarray:
    """(n,) Shapley values by regression on pairs of a coalition and its complement.

        minimise sum_j v_j (U(T_j) - U(T'_j) - sum_a psi_a s_ja)^2
        subject to sum_a psi_a = U(all) - U(none)

    s_ja is 1 if a is in T_j, else -1.

    v_j makes the drawn sizes weigh as the Shapley kernel 1/(t (n - t)).

    Args:
      pairs: of `paired.draw_pairs`, which draws a size t with a chance in proportion to
        sqrt(1/t + 1/(n - t)).
      differences: (P,) U(T) - U(T').
      total: U(all) - U(none).

    Source: KernelSHAP with paired sampling (Covert and Lee 2021, arXiv 2012.01536).
    """
    design = np.subtract(pairs.coalitions, pairs.complements, dtype=np.float64)
    players = design.shape[1]
    inside = np.asarray(pairs.coalitions).sum(1)
    outside = players - inside
    weight = 1 / (inside * outside * np.sqrt(1 / inside + 1 / outside))
    # The constraint: psi = total/n + A'b, where b is the least-squares solution for
    # contrasts that sum to 0.
    contrasts = np.eye(players)[:, 1:] - 1 / players
    root = np.sqrt(weight)[:, None]
    wanted = differences - design.sum(1) * total / players
    solved = np.linalg.lstsq(root * (design @ contrasts), root[:, 0] * wanted)[0]
    return total / players + contrasts @ solved


def half_masks(count: int, records: int, seed: int) -> np.ndarray:
    """(count, n) bool: random halves, each with its complement."""
    rng = np.random.default_rng((seed, count, 1))
    order = np.argsort(rng.random((count // 2, records)), axis=1)
    first = order < records // 2
    return np.concatenate([first, ~first])


def separation(phi: np.ndarray, member: np.ndarray) -> np.ndarray:
    """(n,) risk of each record: (mean in - mean out)/std of its confidence.

    The area under the curve of a test between the two is Phi(risk/sqrt 2) where both
    are Gaussians of that variance (LiRA, Carlini et al. 2022).

    Args:
      phi: (M, n) confidences `membership.confidences` of n records under M networks.
      member: (M, n) bool.
    """
    means, variances = [], []
    for side in (member, ~member):
        count = side.sum(0)
        mean = (phi * side).sum(0) / count
        means.append(mean)
        variances.append((np.square(phi - mean) * side).sum(0) / (count - 1))
    return (means[0] - means[1]) / np.sqrt((variances[0] + variances[1]) / 2)


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's, with mid-ranks for ties."""
    import scipy.stats

    return float(scipy.stats.spearmanr(a, b).statistic)


def reliability(a: np.ndarray, b: np.ndarray) -> float:
    """Of the mean of two measurements, from their correlation r: 2r/(1 + r)."""
    r = rank_correlation(a, b)
    return 2 * r / (1 + r)


def _played(pool: Pool, key: jax.Array, member: np.ndarray) -> np.ndarray:
    """(M,) utilities of coalitions of records, all from the same first weights."""
    logits = small_models.outputs(
        jnp.repeat(key[None], len(member), 0),
        member,
        pool.inputs,
        pool.labels,
        pool.test_inputs,
        num_classes=pool.num_classes,
    )
    return (logits.argmax(-1) == pool.test_labels).mean(-1)


def values_of_records(
    pool: Pool, key: jax.Array, count: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """(n,) values by `count` pairs, and those of either half of the pairs."""
    weights, draws = jax.random.split(key)
    everybody = np.ones((1, len(pool.labels)), bool)
    pairs = paired.draw_pairs(draws, jnp.asarray(everybody[0]), count)
    coalitions = np.concatenate([*pairs, everybody, ~everybody])
    utilities = _played(pool, weights, coalitions)
    first, second, ends = np.split(utilities, [count, 2 * count])
    differences, total = first - second, ends[0] - ends[1]

    def values(chosen: np.ndarray) -> np.ndarray:
        some = paired.Pairs(*(one[chosen] for one in pairs))
        return record_values(some, differences[chosen], total)

    odd = np.arange(count) % 2 == 1
    return values(odd | ~odd), [values(odd), values(~odd)]


def _values_of_classes(
    study: Study, pool: Pool, key: jax.Array
) -> tuple[np.ndarray, list[np.ndarray]]:
    """(classes,) exact values, and those by either half of the test records."""
    count = pool.num_classes
    bits = np.arange(2**count)[:, None] >> np.arange(count) & 1
    coalitions = bits[:, pool.labels].astype(bool)
    halves = np.arange(study.test_records) % 2 == 0

    def values(chosen: np.ndarray) -> np.ndarray:
        asked = pool._replace(
            test_inputs=pool.test_inputs[chosen], test_labels=pool.test_labels[chosen]
        )
        utilities = _played(asked, key, coalitions)
        return np.asarray(shapley.exact_shapley(jnp.asarray(utilities, jnp.float32)))

    parts = [values(halves), values(~halves)]
    # Values are linear in the utility, which is the mean of those of equal halves.
    return np.mean(parts, axis=0), parts


def compute(study: Study, seed: int, data_dir: pathlib.Path) -> dict[str, Any]:
    """One row: the rank correlation, reliabilities, and both numbers by player."""
    data = sources.load(study.dataset, data_dir / study.dataset)
    pool = draw_pool(study, data, seed)
    game, others = jax.random.split(jax.random.key(seed))
    halves = half_masks(study.halves, study.records, seed)
    logits = small_models.outputs(
        jax.random.split(others, study.halves),
        halves,
        pool.inputs,
        pool.labels,
        pool.inputs,
        num_classes=pool.num_classes,
    )
    confidences = jax.vmap(membership.confidences, (0, None))
    labels = jnp.asarray(pool.labels)
    phi = np.asarray(confidences(jnp.asarray(logits), labels), np.float64)
    odd = np.arange(study.halves) % 2 == 1
    parts = [separation(phi[part], halves[part]) for part in (odd, ~odd)]
    risk = separation(phi, halves)
    if study.players != "records":
        values, value_parts = _values_of_classes(study, pool, game)
        counts = np.bincount(pool.labels, minlength=pool.num_classes)
        kept = counts >= LEAST_RECORDS
        risk, *parts = (
            np.bincount(pool.labels, one, len(counts))[kept] / counts[kept]
            for one in (risk, *parts)
        )
        values, *value_parts = (one[kept] for one in (values, *value_parts))
    else:
        values, value_parts = values_of_records(pool, game, study.pairs)
    return {
        "rank_correlation": rank_correlation(values, risk),
        "value_reliability": reliability(*value_parts),
        "risk_reliability": reliability(*parts),
        "values": [round(float(one), 6) for one in values],
        "risks": [round(float(one), 4) for one in risk],
    }
