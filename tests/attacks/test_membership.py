"""Scores, rates and intervals of membership inference, on made confidences."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from fedsvp_jax.attacks import membership


def made(
    gap: float, models: int = 16, examples: int = 200, seed: int = 0
) -> tuple[np.ndarray, ...]:
    """Confidences N(hardness + gap if a member, 1), and who is one."""
    rng = np.random.default_rng(seed)
    member = rng.random((models, examples)) < 0.5
    hardness = 5 * rng.normal(size=examples)
    phi = hardness + gap * member + rng.normal(size=member.shape)
    return phi, member


def test_confidence_is_the_log_odds_of_the_label():
    logits = jnp.asarray([[2.0, 0.0, -1.0], [0.0, 3.0, 3.0]])
    labels = jnp.asarray([0, 1], jnp.int32)
    p = np.asarray(jnp.exp(logits) / jnp.exp(logits).sum(1, keepdims=True))
    chosen = p[[0, 1], [0, 1]]
    np.testing.assert_allclose(
        membership.confidences(logits, labels), np.log(chosen / (1 - chosen)), rtol=1e-5
    )
    sure = membership.confidences(jnp.asarray([[200.0, 0.0]]), labels[:1])
    np.testing.assert_allclose(sure, 200.0)


def test_lira_sees_through_how_hard_an_example_is():
    phi, member = made(2.0)
    loss = membership.roc("loss", phi, member)
    lira = membership.roc("lira", phi, member)
    assert loss["auc"] < 0.65
    # Of two unit Gaussians 2 apart the area is Φ(√2) = .921.
    assert 0.87 < lira["auc"] < 0.93
    assert lira["auc_low"] < lira["auc"] < lira["auc_high"]
    assert lira["tpr"]["0.01"] > 5 * 0.01 > 0.01 > loss["tpr"]["0.001"] - 0.02


def test_without_a_difference_nine_of_ten_intervals_hold_one_half():
    held = dict.fromkeys(membership.SCORES, 0)
    for seed in range(20):
        phi, member = made(0.0, models=8, examples=60, seed=seed)
        for attack in held:
            found = membership.roc(attack, phi, member)
            held[attack] += found["auc_low"] < 0.5 < found["auc_high"]
    assert min(held.values()) >= 18


def test_lira_is_the_written_formula_and_leaves_the_target_out():
    phi, member = made(1.0, models=6, examples=7)
    target, shadows = 2, [0, 1, 3, 4, 5]
    found = membership.likelihood_ratios(phi, member)[target]
    logs = []
    for side in (member[shadows], ~member[shadows]):
        groups = [phi[shadows][side[:, j], j] for j in range(7)]
        freedom = sum(max(len(group) - 1, 0) for group in groups)
        spread = sum(((g - g.mean()) ** 2).sum() for g in groups if len(g)) / freedom
        means = [g.mean() if len(g) else math.nan for g in groups]
        gaps = (phi[target] - np.asarray(means)) ** 2 / spread
        logs.append(-0.5 * (gaps + np.log(spread)))
    expected = np.nan_to_num(logs[0] - logs[1])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_rates_are_those_of_one_threshold():
    member = np.asarray([[True] * 100 + [False] * 1000] * 2)
    scores = np.where(member, 0.0, -1.0)
    scores[:, :30], scores[:, 100] = 2.0, 1.0  # 30 % above all others, then one other
    found = membership.roc("loss", scores, member)
    assert found["tpr"] == {"0.001": 1.0, "0.01": 1.0}
    scores[:, 100:103] = 1.0
    assert membership.roc("loss", scores, member)["tpr"]["0.001"] == 0.3


def test_what_cannot_be_attacked_is_refused():
    phi, member = made(1.0, models=3)
    with pytest.raises(ValueError, match="at least 4"):
        membership.likelihood_ratios(phi, member)
    with pytest.raises(ValueError, match="NaN"):
        membership.roc("loss", np.full((2, 3), np.nan), np.ones((2, 3), bool))


@pytest.mark.hole
@pytest.mark.parametrize("attack", list(membership.SCORES))
def test_a_tpr_at_a_small_fpr_has_the_jackknifes_interval(attack: str):
    phi, member = made(2.0, models=8, examples=100)
    whole = membership.roc(attack, phi, member)
    left = [
        membership.roc(attack, phi[others], member[others])["tpr"]
        for others in ~np.eye(8, dtype=bool)
    ]
    for level in ("0.001", "0.01"):
        spread = np.std([tpr[level] for tpr in left])
        reach = scipy.stats.t.ppf(0.975, 7) * 7**0.5 * spread
        expected = np.clip(
            [whole["tpr"][level] - reach, whole["tpr"][level] + reach], 0, 1
        )
        interval = whole["tpr_low"][level], whole["tpr_high"][level]
        np.testing.assert_allclose(interval, expected)


@pytest.mark.slow
@pytest.mark.hole
def test_nine_of_ten_intervals_of_the_loss_hold_the_true_tpr():
    """Members N(1, 1), others N(0, 1): TPR at 1 % FPR is Φ(1 − Φ⁻¹(.99)) = .092."""
    true_rate = scipy.stats.norm.sf(scipy.stats.norm.isf(0.01) - 1)
    held = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        member = rng.random((16, 300)) < 0.5
        phi = member + rng.normal(size=member.shape)
        roc = membership.roc("loss", phi, member)
        held += roc["tpr_low"]["0.01"] <= true_rate <= roc["tpr_high"]["0.01"]
    assert held >= 36
