"""FedSVA and FedSDP: the printed chain, with METHODS section 2's and 5's numbers."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import make, says, upload

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import calibration, shapley_guided
from fedsvp_jax.mechanisms.clipping import record_bound


def published_std(ratio: jax.Array | float, floor: float = 0.01) -> jax.Array:
    """σ at the papers' C = 20, ε = .2, δ = .02 and 2,000 examples."""
    tolerance = mechanisms.risk_tolerance(ratio, 0.02)
    bound = record_bound(20.0, 2000)
    return mechanisms.guided_multiplier(tolerance, 0.2, floor) * bound


@pytest.mark.parametrize(
    ("ratio", "tolerance", "std", "delta"),
    [
        (0.0, 7.824046, 0.279715, 0.025000),
        (2 * math.log(1.25), None, 0.287582, 0.020000),
        (1.0, 8.824046, 0.297053, 0.015163),
    ],
)
def test_methods_section_2(ratio: float, tolerance: float, std: float, delta: float):
    found = mechanisms.risk_tolerance(ratio, 0.02)
    if tolerance is not None:
        np.testing.assert_allclose(found, tolerance, rtol=1e-6)
    made = published_std(ratio, floor=1e-3)
    np.testing.assert_allclose(made, std, rtol=3e-6)
    back = shapley_guided.effective_delta(found, 1e-3)
    np.testing.assert_allclose(back, delta, rtol=3e-5)


def test_noise_grows_with_r_and_in_all_by_6_2_percent():
    ratios = jnp.linspace(0.0, 1.0, 21)
    stds = np.asarray(published_std(ratios))
    assert np.all(np.diff(stds) > 0)
    assert round(100 * (stds[-1] / stds[0] - 1), 1) == 6.2


def test_against_nbafl_the_noise_differs_by_minus_2_7_to_plus_3_3_percent():
    reference = calibration.classical_multiplier(0.2, 0.02) * record_bound(20.0, 2000)
    ends = published_std(jnp.asarray([0.0, 1.0]))
    percent = 100 * (np.asarray(ends) / float(reference) - 1)
    assert [round(float(p), 1) for p in percent] == [-2.7, 3.3]
    below = published_std(0.446)
    above = published_std(0.447)
    assert below < reference < above


def test_published_noise_on_resnet18_is_304_long_every_round():
    std = published_std(2 * math.log(1.25))
    averaged = float(std) / math.sqrt(10)
    assert round(averaged, 3) == 0.091
    assert round(averaged * math.sqrt(11_173_962)) == 304


@pytest.mark.parametrize(
    ("ratio", "x"), [(-9.0, -3.0), (0.0, -1.0), (1.0, -0.5), (9.0, 1.0)]
)
def test_fedsdp_offset_is_the_codes_clip(ratio: float, x: float):
    found = shapley_guided.fedsdp_risk_tolerance(ratio, 0.02)
    np.testing.assert_allclose(found, x - 2 * math.log(0.02), rtol=1e-6)


@pytest.mark.parametrize("name", ["fedsva", "fedsdp"])
@pytest.mark.parametrize("release", ["raw", "worst_case", "laplace"])
def test_an_upload_is_noised_by_its_r_and_counted_by_the_least_that_may_be(
    name: str, release: str
):
    mechanism = make(
        name, contribution_release=release, clipping="update_clip", noise_floor=0.5
    )
    prefix = "" if name == "fedsva" else "fedsdp_"
    tolerance_of = getattr(shapley_guided, f"{prefix}risk_tolerance")
    ratio = 0.7
    info = upload(mechanism, jnp.ones((3,)), ratio=ratio, round_num=399)[2]
    tolerance = float(tolerance_of(ratio, 0.02))
    counted = float(tolerance_of(0.0, 0.02)) if release == "laplace" else tolerance
    says(info, risk_tolerance=tolerance, noise_multiplier=counted**0.5 / 0.2)
    says(info, sensitivity=40.0, noise_std=40 * tolerance**0.5 / 0.2, epsilon=0.2)
    says(info, rtol=1e-5, delta=1.25 * math.exp(-counted / 2))
    assert mechanism.needs_contribution == (release != "worst_case")
    quietest = 1.0 if release == "worst_case" else 0.0
    least = float(tolerance_of(quietest, 0.02))
    says(mechanism, least_multiplier=least**0.5 / 0.2, most_epsilon=0.2)
    says(mechanism, rtol=1e-5, most_delta=1.25 * math.exp(-least / 2))
    claim = mechanism.basis
    assert claim.proved == (release != "raw")
    assert shapley_guided.RELEASE_ASSUMPTIONS[release] in claim.assumptions


def test_the_floor_is_the_least_tolerance_of_noise_and_delta():
    info = upload(make("fedsva", noise_floor=10.0), jnp.ones((3,)), ratio=1.0)[2]
    says(info, noise_multiplier=10**0.5 / 0.2, delta=1.25 * math.exp(-5))
