"""Scores of clients with bad data: measures, rules of others, and the tables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import digits

from experiments.shapley import contributors, federation, rivals
from fedsvp_jax import shapley
from fedsvp_jax.structs import Examples

DEGREES = np.asarray([0.0, 0.0, 0.5, 1.0])


def test_tau_counts_pairs_of_unlike_degree_and_auc_pairs_of_good_and_bad() -> None:
    best, flat = np.asarray([4.0, 3.0, 2.0, 1.0]), np.zeros(4)
    assert contributors.tau(best, DEGREES) == 1 == contributors.auc(best, DEGREES)
    assert contributors.tau(-best, DEGREES) == -1
    assert contributors.auc(-best, DEGREES) == 0
    assert contributors.tau(flat, DEGREES) == 0
    assert contributors.auc(flat, DEGREES) == 0.5
    one_wrong = np.asarray([4.0, 1.5, 2.0, 1.0])  # of five pairs of unlike degree
    assert contributors.tau(one_wrong, DEGREES) == pytest.approx(3 / 5)
    assert contributors.auc(one_wrong, DEGREES) == pytest.approx(3 / 4)


def test_gtg_shapley_is_near_the_values_and_silent_in_a_round_that_changes_nothing():
    draw = np.random.default_rng(0)
    worth = draw.normal(size=64).cumsum() / 10
    values, asked = rivals.gtg(worth, np.random.default_rng(1))
    exact = worth @ shapley.weights(6)
    assert np.abs(values - exact).max() < 0.2 * np.abs(exact).max()
    assert 2 < asked <= 64
    worth[-1] = worth[0] + 0.01
    silent, asked = rivals.gtg(worth, np.random.default_rng(1))
    assert not silent.any() and asked == 2


def test_leaving_one_out_is_what_all_lose_without_it() -> None:
    worth = np.asarray([0, 1, 2, 3, 4, 5, 6, 10.0])
    np.testing.assert_array_equal(rivals.left_out(worth), [4, 5, 7])


def _images() -> federation.Images:
    draw = np.random.default_rng(0)
    each = federation.TRAINED + federation.VOTING
    shape = (federation.CLIENTS, each)
    labels = jnp.asarray(draw.integers(0, 10, shape), jnp.int32)
    middles = draw.normal(size=(10, federation.DIRECTIONS)) / 8
    clean = middles[labels] + draw.normal(size=(*shape, federation.DIRECTIONS)) / 16
    tested = draw.integers(0, 10, federation.SERVER)
    return federation.Images(
        jnp.asarray(clean, jnp.float32),
        {"random_labels": (jnp.asarray(clean, jnp.float32), (labels + 1) % 10)},
        labels,
        Examples(
            jnp.asarray(middles[tested], jnp.float32),
            jnp.asarray(tested, jnp.int32),
            jnp.zeros(federation.SERVER, jnp.int32),
        ),
    )


def test_a_degree_is_the_share_of_both_parts_that_is_bad() -> None:
    images = _images()
    degrees = np.linspace(0, 0.9, federation.CLIENTS)
    _, labels = federation.corrupted(images, "random_labels", degrees)
    changed = np.asarray(labels != images.labels)
    trained, voting = np.split(changed, [federation.TRAINED], axis=1)
    np.testing.assert_allclose(trained.mean(1), degrees, atol=1e-6)
    np.testing.assert_allclose(voting.mean(1), degrees, atol=1e-6)


@pytest.mark.slow  # scattering of 800 images
def test_bad_images_keep_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation, "CLIENTS", 2)
    images = federation.draw(digits(), "skewed", ("noisy_images",), 3)
    assert images.clean.shape == images.bad["noisy_images"][0].shape
    assert (images.labels == images.bad["noisy_images"][1]).all()
    assert (images.clean != images.bad["noisy_images"][0]).any(axis=2).all()


@pytest.mark.slow  # 1,023 coalitions, six times
def test_values_share_out_the_gains_of_every_round_and_find_who_is_bad() -> None:
    images = _images()
    degrees = np.asarray(contributors.DEGREES["three"])
    x, y = federation.corrupted(images, "random_labels", degrees)
    told = federation.federate("logistic", x, y, images.server, jax.random.key(0))
    for utility, table in told.utilities.items():
        gained = np.asarray(table[:, -1] - table[:, 0])
        for kind in ("exact", "gp", "additive"):
            values = np.asarray(told.values[f"{kind} {utility}"])
            np.testing.assert_allclose(values.sum(1), gained, atol=1e-4)
    found, _ = federation.scores("logistic", x, y, images.server, 0)
    assert contributors.auc(found["exact loss"], degrees) == 1
    assert set(contributors.RIVALS) < set(found)


def test_a_verdict_is_the_interval_of_the_seeds() -> None:
    names = (contributors.MINE, *contributors.RIVALS)
    rows = []
    for seed in (1, 2, 3):
        by = dict.fromkeys(names, 0.5) | {contributors.MINE: 0.8 + seed / 100}
        by["centre"] = by[contributors.MINE] + 0.1 - seed / 1000
        cell = {"deal": "iid", "ladder": "mild", "by": by}
        played = [cell, cell | {"ladder": "three"}, cell | {"deal": "skewed"}]
        rows += [
            {"dataset": name, "seed": seed, "played": played}
            for name in contributors.DATASETS
        ]
    lines = contributors.verdicts(rows).splitlines()[2:]
    assert len(lines) == 2 * len(contributors.RIVALS)
    assert all("wins" in line for line in lines if "centre" not in line)
    assert sum("loses" in line for line in lines) == 2
