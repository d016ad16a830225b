"""Games of uploads: the scores are the log likelihood ratios of what is released."""

import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import epsilon_of, published

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import Allowance
from fedsvp_jax.attacks import audit
from fedsvp_jax.attacks.epsilon_bounds import gaussian_bound
from fedsvp_jax.mechanisms import MechanismConfig

DELTA = 1e-5
SETTINGS = published(
    "dp_fedavg",
    clipping="update_clip",
    noise_multiplier=1.0,
    l2_norm_clip=1.0,
    num_clients=4,
    cohort_size=4,
    num_rounds=2,
    delta=DELTA,
)
PRESENCE = audit.AuditGame((10.0, 0.0), others=(1.0,) * 3)


def played(
    game: audit.AuditGame,
    seed: int,
    name: str = "dp_fedavg",
    told: MechanismConfig = SETTINGS,
    *,
    games: int = 2000,
) -> audit.Scores:
    mechanism = mechanisms.make_mechanism(name, told)
    transcript = partial(audit.transcript_of_uploads, mechanism, told, game)
    return audit.make_player(transcript, games)(jax.random.key(seed))


def assert_gaussian(scores: audit.Scores, *mu_squared: float) -> None:
    """Mean ±mu²/2 and variance mu² after each round, as two shifted Gaussians have."""
    for number, square in enumerate(mu_squared):
        inside, outside = scores.inside[number], scores.outside[number]
        reach = 4 * math.sqrt(square / len(inside))
        assert abs(inside.mean() - square / 2) < reach
        assert abs(outside.mean() + square / 2) < reach
        np.testing.assert_allclose(inside.std(), math.sqrt(square), rtol=0.1)


def test_the_score_of_equal_noise_is_the_gaussians_likelihood_ratio():
    scores = played(PRESENCE, 1)
    assert_gaussian(scores, 1.0, 2.0)
    np.testing.assert_allclose(scores.infos.noise_std, 0.5)
    assert scores.uploaded.all()
    # With two of four parts of the noise: half of the variance.
    assert_gaussian(played(PRESENCE._replace(others=(1.0,)), 6), 2.0, 4.0)


def test_an_adaptive_clip_and_the_sum_are_one_gaussian_of_the_claimed_z(
    monkeypatch: pytest.MonkeyPatch,
):
    own = dataclasses.replace(
        SETTINGS.settings, adaptive_clip=True, count_noise_std=1.25
    )
    settings = dataclasses.replace(SETTINGS, settings=own)
    assert_gaussian(played(PRESENCE, 7, told=settings), 1.0, 2.0)
    # The sum alone has z⁻² − σ_b⁻² of it: the clip tells the rest.
    monkeypatch.setattr(audit, "clip_log_ratio", lambda *_, **__: 0.0)
    unseen = played(PRESENCE, 7, told=settings)
    assert_gaussian(unseen, 1 - 1.25**-2, 2 * (1 - 1.25**-2))


def test_another_upload_with_noise_of_its_own_does_not_help():
    told = {"clipping": "update_clip", "l2_norm_clip": 1.0}
    settings = published(
        "gaussian", epsilon=epsilon_of(1.0, 0.02), num_rounds=1, **told
    )
    game = audit.AuditGame((10.0, -10.0), others=(-1.0,))
    # 2C apart with twice the variance; alone it would be 1.
    assert_gaussian(played(game, 8, "gaussian", settings), 0.5)


def test_after_the_last_upload_that_is_allowed_nothing_more_is_learned():
    twice = Allowance(np.ones(4, np.int32), np.int32(2), np.int32(0))
    game = PRESENCE._replace(allowance=twice)
    told = dataclasses.replace(SETTINGS, num_rounds=4)
    scores = played(game, 9, told=told, games=500)
    assert scores.uploaded.tolist() == [True, True, False, False]
    np.testing.assert_array_equal(scores.inside[1], scores.inside[3])
    assert not np.array_equal(scores.inside[0], scores.inside[1])


@pytest.mark.parametrize("release", ["laplace", "randomized_response"])
def test_a_released_r_is_scored_by_its_likelihood_ratio(release: str):
    settings = published(
        "fedsva",
        clipping="update_clip",
        contribution_release=release,
        release_epsilon=2.0,
        l2_norm_clip=1.0,
        num_rounds=1,
    )
    game = audit.AuditGame((0.0, 0.0), ratios=(1.0, 0.0))
    scores = played(game, 10, "fedsva", settings, games=4000)
    # An (ε, 0)-DP release: |score| ≤ ε, and P[score = ε] is that of the mechanism.
    assert np.abs(scores.inside).max() <= 2.0 + 1e-5
    certain = np.isclose(scores.inside[0], 2.0, atol=1e-5).mean()
    truth = 0.5 if release == "laplace" else math.exp(2) / (1 + math.exp(2))
    np.testing.assert_allclose(certain, truth, atol=0.04)


def test_a_noise_scale_that_follows_r_is_found():
    settings = published(
        clipping="update_clip", epsilon=0.5, delta=0.1, l2_norm_clip=1.0, num_rounds=1
    )
    game = audit.AuditGame((1.0, 1.0), ratios=(1.0, 0.0), dimension=2048)
    bounds = {}
    for release in ("raw", "worst_case"):
        config = dataclasses.replace(settings, contribution_release=release)
        if release == "worst_case":
            game = game._replace(ratios=(1.0, 1.0))
        scores = played(game, 2, "fedsva", config, games=300)
        bounds[release] = gaussian_bound(
            scores.inside[0], scores.outside[0], delta=DELTA, significance=0.05
        )
    assert bounds["raw"] > 4 * 0.5
    assert bounds["worst_case"] == 0


@pytest.mark.hole
def test_a_game_is_traced_once_for_both_worlds() -> None:
    """It was traced for each, which took a quarter of an audit's time."""
    traced = []

    def transcript(world, key):
        traced.append(world)
        seen = world.astype(jnp.float32) + jax.random.uniform(key)
        return audit.Transcript(seen[None], jnp.ones(1, bool), jnp.ones(1, bool))

    scores = audit.make_player(transcript, 20)(jax.random.key(0))
    assert len(traced) == 1
    assert np.all((scores.inside >= 0) & (scores.inside < 1))
    assert np.all((scores.outside >= 1) & (scores.outside < 2))
    assert len({*scores.inside[0]}) == len({*scores.outside[0]}) == 20
