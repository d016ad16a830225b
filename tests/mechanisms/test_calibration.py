"""Classical and analytic calibration: METHODS section 5's numbers."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from published import published, says

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.mechanisms import calibration


def true_delta(multiplier: float, epsilon: float) -> float:
    """δ of the Gaussian mechanism at ε, exactly (Balle and Wang 2018, eq. 6)."""
    half, tail = 0.5 / multiplier, epsilon * multiplier
    normal = scipy.stats.norm
    return normal.cdf(half - tail) - math.exp(epsilon) * normal.cdf(-half - tail)


def test_the_classical_formula_is_not_a_proof_at_epsilon_ten():
    multiplier = float(calibration.classical_multiplier(10.0, 1e-5))
    assert round(true_delta(multiplier, 10.0), 7) == 2.27e-5


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 3.730632), (10.0, 0.499889)])
def test_the_analytic_multiplier_is_exact(epsilon: float, multiplier: float):
    found = float(mechanisms.analytic_multiplier(epsilon, 1e-5))
    np.testing.assert_allclose(found, multiplier, rtol=2e-6)
    np.testing.assert_allclose(true_delta(found, epsilon), 1e-5, rtol=1e-6)


def test_a_sweep_solves_for_its_cells_before_it_is_traced():
    told = {"delta": 1e-5, "calibration": "analytic"}
    epsilons = np.asarray([1.0, 10.0], np.float32)
    solved = mechanisms.with_analytic_multiplier(published(epsilon=epsilons, **told))

    def least(epsilon: jax.Array, multiplier: jax.Array | None) -> jax.Array:
        cell = published(epsilon=epsilon, analytic_multiplier=multiplier, **told)
        return mechanisms.make_mechanism("nbafl", cell).least_multiplier

    found = jax.jit(jax.vmap(least))(epsilons, solved.analytic_multiplier)
    np.testing.assert_allclose(found, [3.730632, 0.499889], rtol=2e-6)
    with pytest.raises(ValueError, match="with_analytic_multiplier"):
        jax.jit(lambda e: least(e, None))(jnp.float32(1.0))


def test_classical_is_refused_from_one_on_unless_it_is_asked_for():
    calibration.check_calibration(published(epsilon=0.999))
    calibration.check_calibration(published(epsilon=1.0, allow_large_epsilon=True))
    calibration.check_calibration(published(epsilon=9.0, calibration="analytic"))
    for epsilon in (1.0, np.asarray([0.5, 2.0])):
        with pytest.raises(ValueError, match="take calibration='analytic', or"):
            calibration.check_calibration(published(epsilon=epsilon))
    with pytest.raises(ValueError, match=r"epsilon must be < 1 .* take mechanism gau"):
        mechanisms.make_mechanism("fedsva", published(epsilon=1.0))


def test_an_analytic_claim_with_more_noise_is_at_most_the_target():
    config = mechanisms.with_analytic_multiplier(
        published(epsilon=2.0, delta=1e-3, calibration="analytic")
    )
    base = float(calibration.base_multiplier(config))
    for factor in (0.5, 1.001, 4.0):
        claim = calibration.scaled_claim(config, jnp.float32(factor))
        by_zcdp = float(calibration.concentrated_epsilon(factor * base, 1e-3))
        expected = min(by_zcdp, 2.0) if factor >= 1 else by_zcdp
        says(claim, rtol=1e-5, epsilon=expected, delta=1e-3)


def test_below_one_the_classical_formula_is_proved_at_every_delta() -> None:
    """Its proof is for small δ; the exact ε says the same of large ones."""
    for epsilon in (1e-3, 0.1, 0.5, 0.9, 0.999):
        for delta in (1e-30, 1e-10, 1e-5, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999):
            z = float(calibration.classical_multiplier(epsilon, delta))
            assert composed_epsilon("gdp", z**-2, delta) <= epsilon


@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-5, 0.5, 0.999])
def test_the_closed_form_lies_above_the_exact_epsilon_and_near_it(delta: float) -> None:
    for precision in (1e-8, 1e-2, 1.0, 1e3, 1e6):
        exact = composed_epsilon("gdp", precision, delta)
        bound = calibration.gaussian_epsilon_bound(precision, delta)
        assert exact <= bound * (1 + 1e-9)
    assert bound == pytest.approx(exact, rel=1e-5)  # at precision 1e6
    assert calibration.gaussian_epsilon_bound(1e-9, 0.999) == 0


@pytest.mark.parametrize("epsilon", [1e4, 5.1e5, 1e9, 1e30])
def test_the_analytic_multiplier_of_a_huge_epsilon_keeps_it(epsilon: float) -> None:
    z = float(calibration.analytic_multiplier(epsilon, 1e-5))
    spent = composed_epsilon("gdp", z**-2, 1e-5)
    assert spent == pytest.approx(epsilon, rel=1e-5) and spent <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("name", ["fedsva", "fedsdp"])
def test_what_the_refusal_of_the_analytic_calibration_advises_is_accepted(name: str):
    refused = published(epsilon=2.0, calibration="analytic")
    with pytest.raises(
        ValueError, match="leave it out; for epsilon >= 1 add allow_large_epsilon, or"
    ):
        mechanisms.make_mechanism(name, refused)
    advised = published(epsilon=2.0, allow_large_epsilon=True)
    assert mechanisms.make_mechanism(name, advised).least_multiplier > 0
