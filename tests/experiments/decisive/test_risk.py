"""Values and risks of H1, on games and confidences whose answers are known."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from small_runs import digits

from experiments.decisive import risk, small_models
from fedsvp_jax import paired, shapley


def drawn(players: int, count: int) -> paired.Pairs:
    return paired.draw_pairs(jax.random.key(0), jnp.ones(players, bool), count)


def test_the_regression_is_exact_for_games_that_add_up() -> None:
    worth = np.arange(12.0)
    pairs = drawn(12, 40)
    difference = np.subtract(pairs.coalitions, pairs.complements, dtype=float) @ worth
    assert np.allclose(risk.record_values(pairs, difference, worth.sum()), worth)


def test_the_regression_over_many_pairs_is_the_shapley_value() -> None:
    """The weights make up for how often each size is drawn."""
    players = 4
    utilities = np.random.default_rng(0).random(2**players)
    exact = shapley.exact_shapley(jnp.asarray(utilities, jnp.float32))
    count = 3000
    pairs = drawn(players, count)
    powers = 2 ** np.arange(players)
    first, second = (utilities[np.asarray(one) @ powers] for one in pairs)
    values = risk.record_values(pairs, first - second, utilities[-1] - utilities[0])
    assert np.allclose(values, exact, atol=0.01)
    assert math.isclose(values.sum(), utilities[-1] - utilities[0])


def test_a_records_risk_is_the_distance_in_standard_deviations() -> None:
    rng = np.random.default_rng(1)
    member = risk.half_masks(4000, 3, seed=0)
    phi = 2 * rng.normal(size=member.shape) + member * np.array([0.0, 2.0, 6.0])
    assert np.allclose(risk.separation(phi, member), [0, 1, 3], atol=0.1)
    low, high = risk.separation(phi[:2000], member[:2000])[[0, 2]]
    assert low < 0.2 < 2.5 < high


def test_halves_come_with_their_complements() -> None:
    masks = risk.half_masks(8, 10, seed=3)
    assert (masks.sum(1) == 5).all() and (masks[:4] == ~masks[4:]).all()


def test_a_pool_has_the_wrong_labels_and_the_class_shares_that_are_asked_for() -> None:
    data = digits()
    clean = risk.draw_pool(risk.Study("digits", test_records=200), data, 0)
    wrong = risk.draw_pool(
        risk.Study("digits", random_labels=0.5, test_records=200), data, 0
    )
    assert np.array_equal(clean.inputs, wrong.inputs)
    assert 30 < (clean.labels != wrong.labels).sum() <= 50
    uneven = risk.Study(
        "digits", records=200, players="uneven_classes", test_records=200
    )
    pool = risk.draw_pool(uneven, data, 0)
    shares, test_shares = (
        np.bincount(one, minlength=10) / len(one)
        for one in (pool.labels, pool.test_labels)
    )
    assert np.ptp(shares) > 0.15 and np.corrcoef(shares, test_shares)[0, 1] > 0.8


def test_a_network_is_trained_on_its_records_alone() -> None:
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(6, 3)).astype(np.float32)
    labels = np.array([0, 1, 0, 1, 0, 1])
    member = np.array([[True] * 4 + [False] * 2, [False] * 6, [True] * 6])
    keys = jnp.repeat(jax.random.key(0)[None], 3, 0)

    def logits(labels: np.ndarray, asked: np.ndarray) -> np.ndarray:
        return small_models.outputs(keys, member, inputs, labels, asked, num_classes=2)

    before = logits(labels, inputs)
    after = logits(np.array([0, 1, 0, 1, 1, 0]), inputs)
    assert np.array_equal(before[:2], after[:2])  # nor does one without records change
    assert not np.allclose(before[2], after[2])
    right = before[2].argmax(1) == labels
    assert right.mean() > 0.8 > (before[1].argmax(1) == labels).mean() - 0.4


def test_reliability_is_spearman_browns() -> None:
    a = np.array([1.0, 2, 3, 4, 5])
    swapped = np.array([2.0, 1, 3, 4, 5])  # rank correlation .9
    assert math.isclose(risk.reliability(a, a), 1)
    assert math.isclose(risk.reliability(a, swapped), 1.8 / 1.9)
