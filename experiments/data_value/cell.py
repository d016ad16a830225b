"""One row: a federation under every arm and every noise, attacked by LiRA."""

import collections
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from fedsvp_jax.attacks import membership
from fedsvp_jax.data.dataset import Dataset

from ..decisive import risk
from . import federation, networks, scores
from .federation import Federation

NETWORKS = 256  # of each arm and noise, on random halves of the members
NOISES = (1.2, 2.0, 3.6)  # sigma; the middle one is the uniform arm's reference
REFERENCE = NOISES[1]
FALSE_POSITIVES = 0.01
Lane: TypeAlias = tuple[np.ndarray, float]  # factors a (n,), sigma
CLIENT_DATASETS = ("mnist",)  # on Adult most R are 0 (docs/data_value.md)


def true_positives(ratios: np.ndarray, member: np.ndarray) -> float:
    """TPR at 1 % FPR: one threshold for all networks and records, linear between."""
    threshold = np.quantile(ratios[~member], 1 - FALSE_POSITIVES)
    return float((ratios[member] > threshold).mean())


def area(ratios: np.ndarray, member: np.ndarray) -> float:
    """Area under the ROC curve, of all networks and records together."""
    from sklearn import metrics

    return float(metrics.roc_auc_score(member.ravel(), ratios.ravel()))


def trained(
    one: Federation, lanes: Sequence[Lane], key: jax.Array, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Networks on random halves of the members, under each lane.

    Returns:
      member (M, n) bool, confidences of the members' records (lanes, M, n), and which
      test records are classified rightly (lanes, M, q) bool.
    """
    member = risk.half_masks(NETWORKS, federation.RECORDS, seed)
    pool = one.pool
    outputs = networks.outputs(
        jax.random.split(key, NETWORKS),
        member,
        (pool.inputs, pool.labels, np.stack([a for a, _ in lanes]).astype(np.float32)),
        np.concatenate([pool.inputs, one.test.inputs]),
        sigma=np.asarray([sigma for _, sigma in lanes]),
        num_classes=one.num_classes,
    )
    count = federation.RECORDS
    own, right = [], []
    for logits in outputs:
        own.append(logits[:, :count])
        right.append(logits[:, count:].argmax(-1) == one.test.labels)
    phi = [scores.confidences(part, pool.labels) for part in np.stack(own, 1)]
    return member, np.stack(phi), np.stack(right, 1)


def measured(
    one: Federation, member: np.ndarray, phi: np.ndarray, right: np.ndarray
) -> dict[str, float]:
    """Accuracy and what LiRA tells, of one arm at one noise."""
    ratios = membership.likelihood_ratios(phi, member)
    private = one.pool.private
    numbers = {
        "accuracy": right.mean(),
        "private_accuracy": right[:, one.test.private].mean(),
        "tpr": true_positives(ratios[:, private], member[:, private]),
        "area": area(ratios[:, private], member[:, private]),
        "tpr_all": true_positives(ratios, member),
    }
    return {name: round(float(number), 6) for name, number in numbers.items()}


def compute(data: Dataset, seed: int) -> dict[str, Any]:
    """The row of one federation: what it holds, and every arm at every noise.

    All arms share the networks' halves, first weights and noise.
    """
    one = federation.draw(data, seed)
    keys = jax.random.split(jax.random.key(seed), 6)
    rng = np.random.default_rng((seed, 2))
    values, value_halves = scores.record_values(one, keys[0])
    flat = np.ones(federation.RECORDS)
    # The oracle's risks come from networks of their own.
    member, phi, _ = trained(one, [(flat, REFERENCE)], keys[3], 1_000_000 + seed)
    risks = risk.separation(phi[0], member)
    losses = scores.public_losses(one, keys[2])
    arms = scores.factors_of_arms(one, values, risks, losses, rng)
    private = one.pool.private
    row = {
        "value_reliability": risk.reliability(*value_halves),
        "value_risk": [
            risk.rank_correlation(values[private == side], risks[private == side])
            for side in (True, False)
        ],
        "private_records": int(private.sum()),
    }
    if data.name in CLIENT_DATASETS:
        games = [
            scores.contribution_ratios(part, one.validation, key, one.num_classes)
            for part, key in ((one.pool, keys[1]), (one.public, keys[5]))
        ]
        (ratios, halves), (public, _) = games
        arms |= scores.factors_by_client(one, ratios, float(np.median(public)), rng)
        shares = private.reshape(federation.CLIENTS, -1).mean(1)
        row |= {
            "ratio_reliability": risk.reliability(*halves),
            "shares": [round(float(share), 3) for share in shares],
            "ratios": [round(float(ratio), 4) for ratio in ratios],
        }
    lanes = [(flat, 0.0)]
    lanes += [(factors, sigma) for factors in arms.values() for sigma in NOISES]
    member, *both = trained(one, lanes, keys[4], seed)
    numbers = iter([measured(one, member, *lane) for lane in zip(*both, strict=True)])
    return row | {
        "no_noise": next(numbers),
        "arms": {
            name: {
                "factors": {
                    f"{factor:.6g}": count
                    for factor, count in sorted(collections.Counter(factors).items())
                },
                "noises": {f"{sigma:g}": next(numbers) for sigma in NOISES},
            }
            for name, factors in arms.items()
        },
    }
