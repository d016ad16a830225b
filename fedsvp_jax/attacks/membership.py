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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.structs import Array

FALSE_POSITIVE_RATES = (0.001, 0.01)


def confidences(logits: Array, labels: Array) -> Array:
    """(n,) float32: φ = ln(p_y/(1 − p_y)), y's logit minus the others' log-sum-exp.

    Args:
      logits: (n, num_classes).
      labels: (n,) int32, y.
    """
    own = jax.nn.one_hot(labels, logits.shape[-1], dtype=bool)
    others = jnp.where(own, -jnp.inf, logits)
    right = jnp.sum(jnp.where(own, logits, jnp.float32(0.0)), axis=-1)
    return right - jax.nn.logsumexp(others, axis=-1)


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
    scores = np.zeros_like(phi)
    for target in range(len(phi)):
        kept = np.arange(len(phi)) != target
        logs, known = [], np.ones(phi.shape[1], bool)
        for side in (member[kept], ~member[kept]):
            count = side.sum(0)
            known &= count > 0
            mean = (phi[kept] * side).sum(0) / np.maximum(count, 1)
            freedom = max(int(np.maximum(count - 1, 0).sum()), 1)
            variance = (np.square(phi[kept] - mean) * side).sum() / freedom
            gap = np.square(phi[target] - mean)
            logs.append(-0.5 * (gap / variance + np.log(variance)))
        scores[target] = np.where(known, logs[0] - logs[1], 0.0)
    return scores


# Scores of `roc`: (phi, member) -> (S, n).
SCORES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "loss": lambda phi, member: phi,
    "lira": likelihood_ratios,
}


class Roc(NamedTuple):
    """How well scores separate members from non-members."""

    auc: float  # mean over the targets
    auc_low: float  # 95 % confidence interval of that mean
    auc_high: float
    tpr: dict[str, float]  # FPR -> TPR, all targets' scores under one threshold
    curve: tuple[np.ndarray, np.ndarray]  # (FPR, TPR), likewise


def roc(attack: str, phi: np.ndarray, member: np.ndarray) -> Roc:
    """The area under the ROC curve, its interval, and the TPR at small FPR.

    The interval is the jackknife's over the models, with Student's factor: each model
    is left out once, as a target and as a shadow of the others. For the loss threshold
    it equals Student's interval of the targets' areas. For LiRA, whose targets share
    shadows, Student's interval contained a true area of .5 in only 8 of 10 cases.

    Args:
      attack: a name in `SCORES`; scores are larger for members.
      phi: (S, n) confidences of n examples under S models.
      member: (S, n) bool, which model was trained on which example.

    Raises:
      FloatingPointError: a score is NaN or infinite (a target diverged).
      ValueError: there are too few models for the attack and one to leave out.
    """
    import scipy.stats
    from sklearn import metrics

    score = SCORES[attack]
    scores = score(phi, member)
    if not np.isfinite(scores).all():
        raise FloatingPointError("a membership score is NaN or infinite")

    def area(scores: np.ndarray, member: np.ndarray) -> float:
        pairs = zip(member, scores, strict=True)
        return float(np.mean([metrics.roc_auc_score(*pair) for pair in pairs]))

    mean, count = area(scores, member), len(scores)
    left = [
        area(score(phi[others], member[others]), member[others])
        for others in ~np.eye(count, dtype=bool)
    ]
    reach = scipy.stats.t.ppf(0.975, count - 1) * (count - 1) ** 0.5 * np.std(left)
    fpr, tpr, _ = metrics.roc_curve(
        member.ravel(), scores.ravel(), drop_intermediate=True
    )
    rates = {
        f"{level:g}": float(tpr[fpr <= level].max()) for level in FALSE_POSITIVE_RATES
    }
    return Roc(mean, mean - float(reach), mean + float(reach), rates, (fpr, tpr))
