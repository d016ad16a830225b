"""Games on the sum of deployed clients, which tells the sum alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deployed import SUMS, policy
from sum_games import sums_player

from fedsvp_jax.attacks.audit import AuditGame
from fedsvp_jax.core import prng
from fedsvp_jax.mechanisms import discrete_gaussian
from fedsvp_jax.mechanisms import grid as grids
from fedsvp_jax.mechanisms.grid import Grid

GAME = AuditGame((10.0, 0.0), others=(1.0, 1.0), dimension=3)


@pytest.fixture(scope="module")
def games():
    play = sums_player(policy(**SUMS, num_rounds=2), GAME, 150)
    return play, play(prng.root_key(1))


def test_scores_are_those_of_two_gaussians_as_far_apart_as_the_claim_says(games):
    """N(±μ²/2, μ²) with μ = √T·C over the noise of the K − h shares."""
    _, scores = games
    info = jax.tree.map(lambda leaf: leaf[0, 0], scores.infos)
    mu = 1.0 / (np.sqrt(3) * float(info.noise_std))  # C = 1
    for rounds in (1, 2):
        wanted = rounds * mu**2
        for world, sign in ((scores.inside, 1), (scores.outside, -1)):
            found = world[rounds - 1]
            error = 5 * np.sqrt(wanted / len(found))
            assert abs(found.mean() - sign * wanted / 2) < error
            assert 0.7 < found.std() / np.sqrt(wanted) < 1.3


def test_a_key_repeats_its_games_and_another_does_not(games):
    play, scores = games
    again, other = play(prng.root_key(1)), play(prng.root_key(2))
    np.testing.assert_array_equal(again.inside, scores.inside)
    assert not np.any(other.inside == scores.inside)


def test_clients_on_a_grid_draw_noise_of_their_own_and_the_average_has_its_share():
    grid, std = Grid(16, 4, 1.0), jnp.float32(0.5)
    sent = [
        grids.add_discrete_noise(
            jnp.zeros(20_000), std, grid, num_examples=1, key=jax.random.key(client)
        )[0]
        for client in range(4)
    ]
    total = sum(grids.residues(one, grid, std=std) for one in sent)
    seen = grids.average(total, grid, std=std, count=jnp.int32(4))
    np.testing.assert_allclose(np.std(seen), 0.5 / 4**0.5, rtol=0.05)


def test_a_sum_of_residues_tells_the_sum_alone_however_often_they_wrap():
    """Two cohorts with one sum of whole numbers look the same to the server."""
    bits = 8
    words = discrete_gaussian.seeded_words(3)
    one, other, shift = (
        discrete_gaussian.discrete_gaussian(200**2, 500, words) for _ in range(3)
    )

    def seen(*cohort: np.ndarray) -> np.ndarray:
        total = sum(sent % 2**bits for sent in cohort)
        return discrete_gaussian.wrapped(total, bits)

    np.testing.assert_array_equal(seen(one, other), seen(one + shift, other - shift))
