"""The audit stays under what holds, and is over what does not."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from published import published

from experiments.attack import audit as audit_command
from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.algorithm.local_training import TrainingRates, TrainingRecipe
from fedsvp_jax.attacks import audit
from fedsvp_jax.attacks.epsilon_bounds import (
    METHODS,
    by_coins,
    gaussian_bound,
    lower_bounds,
)
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.mechanisms import MechanismConfig

DELTA = 1e-5
SETTINGS = published(
    "dp_fedavg",
    sensitivity="update_clip",
    noise_multiplier=1.0,
    l2_norm_clip=1.0,
    num_clients=4,
    cohort_size=4,
    num_rounds=2,
    delta=DELTA,
)
PRESENCE = audit.Game((1.0, 0.0), averaged=4, num_rounds=2)


def largest(bounds: dict[str, float]) -> float:
    return max(bounds.values())


def quieter(config: MechanismConfig) -> mechanisms.Mechanism:
    """DP-FedAvg that says z and adds a tenth of it."""
    honest = mechanisms.make_mechanism("dp_fedavg", config)
    quiet = mechanisms.make_mechanism(
        "dp_fedavg",
        dataclasses.replace(
            config,
            settings=dataclasses.replace(
                config.settings, noise_multiplier=0.1 * config.settings.noise_multiplier
            ),
        ),
    )

    def update(*given, **more):
        noised, state, _ = quiet.update(*given, **more)
        return noised, state, honest.update(*given, **more)[2]

    return honest._replace(update=update)


@pytest.mark.slow
def test_dp_fedavg_never_exceeds_its_claim_over_20_seeds():
    mechanism = mechanisms.make_mechanism("dp_fedavg", SETTINGS)
    run = 200
    crowd = dataclasses.replace(SETTINGS, num_clients=run, cohort_size=run)
    crowded = mechanisms.make_mechanism("dp_fedavg", crowd)
    claims = [composed_epsilon("gdp", uploads, DELTA) for uploads in (1.0, 2.0)]
    for seed in range(20):
        game_key, run_key = jax.random.split(jax.random.key(seed))
        scores = audit.play(mechanism, PRESENCE, 2000, key=game_key)
        one_run = audit.one_average(crowded, 1.0, run, key=run_key)
        for number, claim in enumerate(claims):
            found = lower_bounds(
                scores.inside[number],
                scores.outside[number],
                one_run if number == 0 else None,
                delta=DELTA,
                equal_noise=True,
                seed=seed,
            )
            assert 0.5 * claim < largest(found) < claim


def test_a_mechanism_with_a_tenth_of_its_noise_is_caught():
    broken = quieter(SETTINGS)
    honest = mechanisms.make_mechanism("dp_fedavg", SETTINGS)
    claim = composed_epsilon("gdp", 1.0, DELTA)
    found = {}
    for name, mechanism in (("broken", broken), ("honest", honest)):
        scores = audit.play(mechanism, PRESENCE, 1000, key=jax.random.key(0))
        bounds = lower_bounds(
            scores.inside[0], scores.outside[0], None, delta=DELTA, equal_noise=True
        )
        found[name] = largest(bounds)
        np.testing.assert_allclose(scores.infos.noise_std, 0.5)
    assert found["honest"] < claim < 3 * claim < found["broken"]


def test_the_score_of_equal_noise_is_the_gaussians_likelihood_ratio():
    """Mean ±mu²/2 and variance mu² with mu = distance/std, a round after another."""
    mechanism = mechanisms.make_mechanism("dp_fedavg", SETTINGS)
    scores = audit.play(mechanism, PRESENCE, 2000, key=jax.random.key(1))
    for number, mu_squared in enumerate((1.0, 2.0)):
        inside, outside = scores.inside[number], scores.outside[number]
        reach = 4 * math.sqrt(mu_squared / 2000)
        assert abs(inside.mean() - mu_squared / 2) < reach
        assert abs(outside.mean() + mu_squared / 2) < reach
        np.testing.assert_allclose(inside.std(), math.sqrt(mu_squared), rtol=0.1)


def test_a_noise_scale_that_follows_r_is_found():
    settings = published(
        sensitivity="update_clip", epsilon=0.5, delta=0.1, l2_norm_clip=1.0
    )
    game = audit.Game((1.0, 1.0), ratios=(1.0, 0.0), dimension=2048)
    bounds = {}
    for release in ("none", "worst_case"):
        config = dataclasses.replace(settings, contribution_release=release)
        told = (1.0, 1.0) if release == "worst_case" else game.ratios
        scores = audit.play(
            mechanisms.make_mechanism("fedsva", config),
            dataclasses.replace(game, ratios=told),
            300,
            key=jax.random.key(2),
        )
        bounds[release] = gaussian_bound(
            scores.inside[0], scores.outside[0], delta=DELTA, significance=0.05
        )
    assert bounds["none"] > 4 * 0.5
    assert bounds["worst_case"] == 0


def test_local_training_moves_the_pushed_weight_by_eta_c_a_step():
    recipe = TrainingRecipe(batch_size=5, local_epochs=2, gradient="clipped_mean")
    rates = TrainingRates(0.1, 3.0, 0.0, 0.0)
    moved = [
        length
        for replaced in (1, 20)
        for length in audit.trained_updates(
            recipe, rates, 20, replaced, key=jax.random.key(3)
        )
    ]
    # One record is in one batch an epoch; all records are in all 4 of them.
    np.testing.assert_allclose(moved, [0.6, -0.6, 2.4, -2.4], rtol=1e-5)


def test_dp_sgd_in_the_client_keeps_its_promise():
    settings = published(
        sensitivity="per_example",
        epsilon=2.0,
        delta=DELTA,
        calibration="analytic",
        l2_norm_clip=1.0,
        local_epochs=2,
        batch_size=5,
    )
    mechanism = mechanisms.make_mechanism(
        "nbafl", mechanisms.with_analytic_multiplier(settings)
    )
    recipe = TrainingRecipe(batch_size=5, local_epochs=2, gradient="per_example")
    scores = audit.play_training(
        mechanism,
        recipe,
        TrainingRates(0.1, 1.0, 0.0, 0.0),
        audit.neighbours(5, 1, 2.0),
        1,
        1000,
        key=jax.random.key(4),
    )
    bounds = lower_bounds(
        scores.inside[0], scores.outside[0], None, delta=DELTA, equal_noise=True
    )
    # With one batch an epoch the upload is the worst case itself: the bound is near.
    assert 0.5 * 2.0 < largest(bounds) < 2.0


def test_noise_on_the_upload_is_not_played_as_training():
    mechanism = mechanisms.make_mechanism("dp_fedavg", SETTINGS)
    with pytest.raises(ValueError, match="local steps"):
        audit.play_training(
            mechanism,
            TrainingRecipe(5, 1, "per_example"),
            TrainingRates(0.1, 1.0, 0.0, 0.0),
            audit.neighbours(5, 1, 2.0),
            1,
            20,
            key=jax.random.key(0),
        )


@pytest.mark.parametrize("mu", [0.0, 0.2, 1.0, 3.0])
def test_bounds_of_known_gaussians_stay_under_the_truth(mu: float):
    truth = composed_epsilon("gdp", mu**2, DELTA)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        inside, outside = rng.normal(mu / 2, 1, 4000), rng.normal(-mu / 2, 1, 4000)
        one_run = by_coins(inside, outside, seed=seed)
        assert len(one_run[0]) + len(one_run[1]) <= 4000 + 200
        found = lower_bounds(
            inside, outside, one_run, delta=DELTA, equal_noise=True, seed=seed
        )
        assert set(found) == set(METHODS)
        assert largest(found) <= truth
        if mu >= 1:
            assert largest(found) > 0.7 * truth
            assert min(found.values()) > 0.05 * truth


def test_one_run_of_canaries_in_one_average_bounds_its_epsilon():
    run = 400
    crowd = dataclasses.replace(
        SETTINGS,
        num_clients=run,
        cohort_size=run,
        settings=dataclasses.replace(SETTINGS.settings, noise_multiplier=0.5),
    )
    inside, outside = audit.one_average(
        mechanisms.make_mechanism("dp_fedavg", crowd), 1.0, run, key=jax.random.key(5)
    )
    assert len(inside) + len(outside) == run
    np.testing.assert_allclose(inside.mean(), 1.0, atol=0.2)
    np.testing.assert_allclose(outside.mean(), 0.0, atol=0.2)
    np.testing.assert_allclose(outside.std(), 0.5, rtol=0.2)
    bounds = lower_bounds(
        inside, outside, (inside, outside), delta=DELTA, equal_noise=True
    )
    assert 0.5 < bounds["one_run"] < composed_epsilon("gdp", 4.0, DELTA)
    assert jnp.isfinite(bounds["one_run"])


def _scale_epsilon(std: float, delta: float) -> float:
    """The true ε at δ of N(0, 1) against N(0, std²), std < 1, either way round.

    The log likelihood ratio ln(std) + x²(std⁻² − 1)/2 exceeds ε where x² > t.
    """
    rate = (std**-2 - 1) / 2

    def excess(epsilon: float) -> float:
        above = (epsilon - math.log(std)) / rate
        below = (-epsilon - math.log(std)) / rate
        square = scipy.stats.chi2(1)
        forth = square.sf(above) - math.exp(epsilon) * square.sf(above / std**2)
        back = square.cdf(below / std**2) - math.exp(epsilon) * square.cdf(below)
        return max(forth, back) - delta

    return scipy.optimize.brentq(excess, 0.0, 50.0)


@pytest.mark.hole
def test_g13_where_the_noise_scale_differs_the_gaussian_bound_exceeds_the_truth():
    std, delta, games = 0.5, 0.3, 400_000
    truth = _scale_epsilon(std, delta)
    rng = np.random.default_rng(0)
    inside, outside = (
        math.log(std) + np.square(scale * rng.normal(size=games)) * (std**-2 - 1) / 2
        for scale in (1.0, std)
    )
    assert gaussian_bound(inside, outside, delta=delta, significance=0.01) > truth
    bounds = lower_bounds(inside, outside, None, delta=delta, equal_noise=False)
    assert set(bounds) == {"clopper_pearson"} and largest(bounds) <= truth


@pytest.mark.hole
@pytest.mark.parametrize(
    ("mechanism", "worlds", "rounds_with_equal_noise"),
    [("fedsva", "ratio", 0), ("fedsdp", "ratio", 0), ("reestimation", "past norm", 1)],
)
def test_g13_ratio_and_past_norm_are_not_bounded_by_the_gaussian_formula(
    mechanism: str, worlds: str, rounds_with_equal_noise: int
):
    config = resolve(
        ExperimentConfig(**{**audit_command.DEFAULTS, "mechanism": mechanism})
    )
    (case,) = (
        case
        for case in audit_command.cases_of(mechanism, config)
        if case.worlds == worlds
    )
    setting = audit_command.Setting(
        config=config,
        recipe=TrainingRecipe(10, 1, "clipped_mean"),
        rates=TrainingRates(0.1, 1.0, 0.0, 0.0),
        num_examples=10,
        num_rounds=2,
        trials=40,
        target_delta=DELTA,
        seed=0,
        trained={},
    )
    for row in audit_command.audit_case(setting, case):
        is_equal = row["uploads"] <= rounds_with_equal_noise
        assert ("gaussian" in row["audited"]) == is_equal
        assert "clopper_pearson" in row["audited"]
