"""Membership inference: was this example in some client's training data?

The attacker holds a model and the examples in question with their labels. For each
example it computes the model's confidence φ = ln(p_y/(1 − p_y)). Its distribution over
trained models is close to a Gaussian (Carlini et al. 2022).

    loss threshold   a member where the loss is small; −loss grows with φ, so φ is
                     the score (Yeom et al. 2018)
    LiRA             ln N(φ; m_in, s_in²) − ln N(φ; m_out, s_out²), with the example's
                     own means over shadow models that were trained with it and
                     without it (Carlini et al. 2022, online; one variance for all
                     examples, as they advise where shadows are few)
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core import student
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.structs import Array

FALSE_POSITIVE_RATES = (0.001, 0.01)


def confidences(logits: Array, labels: Array) -> Array:
    """(n,) float32: φ = ln(p_y/(1 − p_y)), y's logit minus the others' log-sum-exp.

    Args:
      logits: (n, num_classes).
      labels: (n,) int32, y.
    """
    is_label = jax.nn.one_hot(labels, logits.shape[-1], dtype=bool)
    right = jnp.sum(logits, axis=-1, where=is_label)
    return right - jax.nn.logsumexp(logits, axis=-1, where=~is_label)


def likelihood_ratios(phi: np.ndarray, member: np.ndarray) -> np.ndarray:
    """(S, n): LiRA's scores, where each model in turn is the target of the others.

    Args:
      phi: (S, n) confidences of n examples under S models.
      member: (S, n) bool, which model was trained on which example.

    Returns:
      The log likelihood ratios of each target, with the other models as its shadows. An
      example that all shadows were trained on, or none, has the score 0.

    Raises:
      ValueError: fewer than 4 models.
    """
    if len(phi) < 4:
        raise ValueError(f"shadows must be at least 4, got {len(phi)}")
    phi = np.asarray(phi, float)
    centred, logs, has_both = phi - phi.mean(0), [], np.ones(phi.shape, bool)
    for side in (member, ~member):
        # Of the models without the target: all of them less its own.
        count, total, squares = (
            (side * power).sum(0) - side * power
            for power in (np.ones_like(phi), centred, np.square(centred))
        )
        has_both &= count > 0
        mean = total / np.maximum(count, 1)
        freedom = np.maximum(np.maximum(count - 1, 0).sum(1, keepdims=True), 1)
        variance = (squares - mean * total).sum(1, keepdims=True) / freedom
        logs.append(-0.5 * (np.square(centred - mean) / variance + np.log(variance)))
    return np.where(has_both, logs[0] - logs[1], 0.0)


# Scores of `roc`: (phi, member) -> (S, n).
SCORES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "loss": lambda phi, member: phi,
    "lira": likelihood_ratios,
}


def roc(attack: str, phi: np.ndarray, member: np.ndarray) -> Record:
    """Area and rates at small FPR, each with its interval.

    The intervals are the jackknife's over the models: each is left out, as a target
    and as the others' shadow, and Student's factor is applied. For the area of the
    loss this is Student's interval of the targets' areas; for LiRA, whose targets
    share shadows, that one would hold a true .5 in 8 of 10 cases only.

    The interval of a TPR is cut to [0, 1]. Leaving a model out also moves the
    threshold, which Clopper-Pearson's interval at a fixed threshold ignores: of 16
    simulated models and 300 examples it held the true TPR at 0.1 % FPR in 22 to 97 of
    100 cases, this one in 76 to 100 (the fewest for the loss where TPR is .06 to .2).

    Args:
      attack: a name in `SCORES`; scores are larger for members.
      phi: (S, n) confidences of n examples under S models.
      member: (S, n) bool, which model was trained on which example.

    Returns:
      `auc`, mean over the targets; `tpr` by FPR, with all targets' scores under one
      threshold; the ends of their 95 % intervals, `auc_low`, `auc_high`, `tpr_low` and
      `tpr_high`; and `curve`, (FPR, TPR).

    Raises:
      ValueError: a score is NaN or infinite (a target diverged), or there are too few
        models for the attack and one to leave out.
    """
    from sklearn import metrics

    score = SCORES[attack]
    scores = score(phi, member)

    def measured(scores: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, Any]:
        """(1 + rates,): the area, then TPR at `FALSE_POSITIVE_RATES`; and the curve."""
        fpr, tpr, _ = metrics.roc_curve(member.ravel(), scores.ravel())
        rates = [tpr[fpr <= level].max() for level in FALSE_POSITIVE_RATES]
        # The mean of the targets' areas, each target a column.
        area = metrics.roc_auc_score(member.T, scores.T)
        return np.asarray([area, *rates]), (fpr, tpr)

    (values, curve), count = measured(scores, member), len(scores)
    replicates = [
        measured(score(phi[remaining], member[remaining]), member[remaining])[0]
        for remaining in ~np.eye(count, dtype=bool)
    ]
    reach = student.half_width((count - 1) * np.std(replicates, axis=0, ddof=1), count)
    record: Record = {"curve": curve}
    levels = [f"{level:g}" for level in FALSE_POSITIVE_RATES]
    ends = {"": values, "_low": values - reach, "_high": values + reach}
    for ending, (area, *tpr) in ends.items():
        record[f"auc{ending}"] = area
        shares = np.clip(tpr, 0, 1)
        record[f"tpr{ending}"] = dict(zip(levels, shares, strict=True))
    return record
