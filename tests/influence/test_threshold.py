"""The 2-means threshold and the minimum gap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedsvp_jax.influence import lazy, privacy

SCORES = jnp.asarray([-60.0, -42.0, -55.0, 70.0, 80.0, 64.0, 75.0])


def test_the_published_check():
    found = lazy.two_means(SCORES)
    np.testing.assert_allclose(found, [-52.33333, 72.25], rtol=1e-6)
    np.testing.assert_allclose(sum(found) / 2, 9.958333, rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_no_start_of_k_means_finds_less_within_cluster_distance(seed: int):
    rng = np.random.default_rng(seed)
    scores = np.where(rng.random(60) < 0.3, -20, 20) + rng.normal(0, 12, 60)
    scores = scores.astype(np.float32)
    model = KMeans(2, n_init=30, random_state=seed).fit(scores[:, None])
    found = lazy.two_means(jnp.asarray(scores))
    np.testing.assert_allclose(found, np.sort(model.cluster_centers_[:, 0]), rtol=1e-4)


def test_order_and_shift_do_not_matter_and_equal_scores_reject_nobody():
    shuffled = jax.random.permutation(jax.random.key(0), SCORES)
    assert lazy.two_means(shuffled) == lazy.two_means(SCORES)
    equal = jnp.full((7,), 0.1)
    assert not np.any(equal < sum(lazy.two_means(equal)) / 2)
    with pytest.raises(ValueError, match="at least two"):
        lazy.two_means(jnp.zeros((1,)))


def test_the_minimum_gap_lies_between_noise_and_a_real_split():
    flip, num_votes = privacy.flip_probability(1.0), 99
    needed = float(lazy.required_gap(num_votes, flip, 0.25))
    votes = jnp.ones((40, 100, num_votes))

    def gaps(votes: jax.Array) -> np.ndarray:
        reports = lazy.randomized_response(votes, flip, jax.random.key(0))
        low, high = jax.vmap(lazy.two_means)(jnp.sum(reports, axis=-1))
        return np.asarray(high - low)

    assert gaps(votes).max() < needed  # nobody is corrupted: nobody is lost
    assert gaps(votes.at[:, :30].set(-1.0)).min() > needed
    assert lazy.required_gap(num_votes, flip, 0.0) == 0.0
