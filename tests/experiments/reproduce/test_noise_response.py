"""Noise response: curves that are known exactly, and the mechanisms' own numbers."""

import dataclasses
import math

import numpy as np
import pytest
from published import SET_UP

from experiments.reproduce import noise_response
from experiments.reproduce.noise_response import Reading
from fedsvp_jax.mechanisms import MechanismConfig

STDS = 10.0 ** np.arange(-4, 1)


def straight() -> noise_response.Response:
    """Share falls by .25 a decade: 1 at 1e-4, 0 at 1."""
    return noise_response.response(STDS, 0.8 * np.linspace(1, 0, 5), 0.8)


def published(epsilon: float = 0.2) -> MechanismConfig:
    return dataclasses.replace(SET_UP, epsilon=epsilon, min_num_examples=2000.0)


@pytest.mark.parametrize("share", [0.9, 0.6, 0.25, 0.01])
def test_the_std_that_a_share_needs_is_read_off_a_known_curve(share: float) -> None:
    needed = noise_response.noise_needed(straight(), share)
    assert needed.exact
    assert math.log10(needed.least) == pytest.approx(-4 * share)
    assert noise_response.share_at(straight(), needed.least) == pytest.approx(share)


def test_beyond_the_curve_a_reading_is_a_bound() -> None:
    assert noise_response.noise_needed(straight(), 1.1) == Reading(0.0, 1e-4)
    below = noise_response.response(STDS, [0.8, 0.8, 0.7, 0.6, 0.4], 0.8)
    assert noise_response.noise_needed(below, 0.2) == Reading(1.0, math.inf)


def test_a_curve_from_unordered_noisy_points_never_rises() -> None:
    measured = np.array([0.79, 0.81, 0.5, 0.55, 0.1])
    order = [3, 0, 4, 1, 2]
    curve = noise_response.response(STDS[order], measured[order], 0.8)
    assert np.all(np.diff(curve.share) <= 0)
    np.testing.assert_allclose(curve.std, STDS)
    np.testing.assert_allclose(curve.share[:2], 1.0)  # .79 and .81 are pooled
    np.testing.assert_allclose(curve.share[2:4], 0.525 / 0.8)


def test_a_curve_without_points_or_reference_is_refused() -> None:
    for stds, noiseless in (([0.1], 0.8), ([0.0, 0.1], 0.8), ([0.1, 0.2], 0.0)):
        with pytest.raises(ValueError, match="two or more stds"):
            noise_response.response(stds, [0.5] * len(stds), noiseless)


def test_the_formulas_are_methods_section_4_and_2_over_sqrt_k() -> None:
    nbafl = noise_response.formula_std("nbafl", published())
    assert nbafl * math.sqrt(10) == pytest.approx(0.287582, rel=1e-5)
    half = noise_response.formula_std("nbafl", published(0.1))
    assert half == pytest.approx(2 * nbafl)
    for ratio, std in ((0.0, 0.279715), (1.0, 0.297053)):
        guided = noise_response.formula_std(
            "fedsva", published(), contribution_ratio=ratio
        )
        assert guided * math.sqrt(10) == pytest.approx(std, rel=1e-5)


def test_a_schedules_noise_is_its_own_by_round() -> None:
    stds = noise_response.averaged_stds(
        "time_varying", published(), contribution_ratio=0.5
    )
    assert stds.shape == (400,)
    assert stds[0] * math.sqrt(10) == pytest.approx(1.054126, rel=1e-4)
    assert stds[-1] * math.sqrt(10) == pytest.approx(0.142660, rel=1e-4)
    rms = noise_response.formula_std("time_varying", published())
    assert stds[-1] < rms < stds[0]


def test_reestimation_stands_at_its_upper_bound() -> None:
    bound = noise_response.formula_std("reestimation", published())
    assert bound == pytest.approx(noise_response.formula_std("nbafl", published()))


def test_the_conventions_factors() -> None:
    """40 uploads, |D| = 2000, M = 100, η = .1."""
    found = noise_response.conventions(published())
    factors = {(c.budget.split(",")[-1].strip(), c.bound): c.factor for c in found}
    upload, basic = "ε per upload", "basic composition"
    gradient = "C on the gradient, |D| of the client: 2C/|D|"
    expected = {
        (upload, gradient): 1.0,
        (basic, gradient): 40.0,
        ("Gaussian composition", gradient): math.sqrt(40),
        (upload, "C on the gradient, |D| of all M clients"): 0.01,
        (upload, "ηC on the gradient, |D| of the client"): 0.1,
        (upload, "ηC on the gradient, |D| of all M clients"): 0.001,
        (upload, "C on the update: 2C"): 2000.0,
        (upload, "ηC on the update: 2ηC"): 200.0,
        (upload, "C on the weights: 2C"): 2000.0,
        (basic, "C on the weights: 2C"): 80_000.0,
    }
    assert {key: factors[key] for key in expected} == pytest.approx(expected, rel=1e-5)
    assert len(found) == 21 and found[0].factor == pytest.approx(1.0)


def test_a_convention_that_made_the_cells_is_found() -> None:
    """Cells made with a tenth of the formula's noise: .1 and its neighbours agree."""
    curve = straight()
    for epsilon in (0.1, 0.2, 0.5):
        formula = noise_response.formula_std("nbafl", published(epsilon))
        share = noise_response.share_at(curve, 0.1 * formula)
        factor = noise_response.quotient(
            noise_response.noise_needed(curve, share), formula
        )
        assert factor.least == pytest.approx(0.1)
        agreeing = [
            c.factor
            for c in noise_response.conventions(published(epsilon))
            if noise_response.agrees(factor, c.factor)
        ]
        np.testing.assert_allclose(agreeing, [0.1, 0.01 * math.sqrt(40)], rtol=1e-5)


def test_a_bound_agrees_with_everything_on_its_side() -> None:
    assert noise_response.agrees(Reading(0.0, 0.1), 0.01)
    assert noise_response.agrees(Reading(0.0, 0.1), 0.2)
    assert not noise_response.agrees(Reading(0.0, 0.1), 0.21)
    assert noise_response.agrees(Reading(3.0, math.inf), 1.5)
    assert not noise_response.agrees(Reading(3.0, math.inf), 1.4)
