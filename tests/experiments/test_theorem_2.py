"""Theorem 2 as printed, the counterexample to it, and the bound for one local step."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.theorem_2 import one_step_bound, printed_expression

METHODS = pathlib.Path(__file__).parents[2] / "docs" / "results" / "methods.md"
KNOWN = {
    "smoothness": 2.0,
    "convexity": 0.5,
    "learning_rate": 0.1,
    "local_epochs": 3,
    "gradient_square": 4.0,
    "noise_square": 0.01,
    "cohort_size": 5,
    "initial_distance_square": 9.0,
}


def test_each_term_as_printed():
    kept, drift = 1 - 0.1 * 0.5, 2.0 * 2**2 * 4.0
    expected = (
        2.0 * kept**7 * 9.0
        + 14 / 0.5**2 * (1 - kept) * drift
        + 4 * 0.1**2 * drift
        + 2.0 * 5**2 * 0.01
    )
    np.testing.assert_allclose(printed_expression(7, **KNOWN), expected, rtol=1e-6)


def test_it_falls_with_the_rounds_to_its_floor_and_rises_with_the_noise():
    values = np.asarray(printed_expression(jnp.arange(200), **KNOWN))
    assert np.all(np.diff(values) <= 0)
    far = printed_expression(10**5, **(KNOWN | {"initial_distance_square": 0.0}))
    np.testing.assert_allclose(printed_expression(10**5, **KNOWN), far)
    assert printed_expression(5, **(KNOWN | {"noise_square": 1.0})) > values[5]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("smoothness", 0.0),
        ("convexity", 3.0),
        ("learning_rate", 2.0),
        ("local_epochs", 0),
        ("cohort_size", 0),
        ("noise_square", -1.0),
    ],
)
def test_constants_out_of_range_are_refused_by_name(name: str, value: float):
    with pytest.raises(ValueError, match=name):
        printed_expression(1, **(KNOWN | {name: value}))


def test_a_noised_run_on_a_quadratic_stays_below_the_printed_expression():
    """Clients hold F_i = ½‖w − c_i‖²_A: L and ρ are A's ends, G_c² is measured."""
    curvature = jnp.asarray([0.5, 1.0, 2.0])
    rate, steps, cohort, std, rounds = 0.1, 3, 5, 0.05, 60
    centres = jax.random.normal(jax.random.key(0), (cohort, 3))
    best = jnp.mean(centres, axis=0)
    start = best + jnp.asarray([2.0, -2.0, 1.0])

    def loss(w: jax.Array) -> jax.Array:
        gaps = w[None] - centres
        return 0.5 * jnp.mean(jnp.sum(curvature[None] * jnp.square(gaps), axis=1))

    def run(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        def one_round(w: jax.Array, key: jax.Array):
            local, squares = jnp.tile(w, (cohort, 1)), []
            for _ in range(steps):
                gradient = curvature[None] * (local - centres)
                squares.append(jnp.max(jnp.sum(jnp.square(gradient), axis=1)))
                local = local - rate * gradient
            noise = std * jax.random.normal(key, local.shape)
            w = jnp.mean(local + noise, axis=0)
            return w, (loss(w) - loss(best), jnp.max(jnp.stack(squares)))

        _, (gaps, squares) = jax.lax.scan(
            one_round, start, jax.random.split(key, rounds)
        )
        return gaps, jnp.max(squares)

    gaps, squares = jax.vmap(run)(jax.random.split(jax.random.key(1), 20))
    printed = printed_expression(
        np.arange(1, rounds + 1),
        smoothness=2.0,
        convexity=0.5,
        learning_rate=rate,
        local_epochs=steps,
        gradient_square=float(jnp.max(squares)),
        noise_square=3 * std**2,
        cohort_size=cohort,
        initial_distance_square=float(jnp.sum(jnp.square(start - best))),
    )
    assert np.all(np.mean(gaps, axis=0) < np.asarray(printed))


def _noisy_descent(
    curvature: np.ndarray, *, rate: float, cohort: int, rounds: int, runs: int
) -> np.ndarray:
    """(rounds,) mean gap of F = ½Σ a_j w_j² from w = 0; an upload's N_c² is 1."""
    rng = np.random.default_rng(0)
    size = len(curvature)
    w, gaps = np.zeros((runs, size)), []
    for _ in range(rounds):
        noise = rng.normal(size=(runs, size)) * (size * cohort) ** -0.5
        w = w - rate * curvature * w + noise
        gaps.append(np.mean(0.5 * np.square(w) @ curvature))
    return np.asarray(gaps)


@pytest.mark.hole
def test_g2_theorem_2_as_printed_is_no_bound():
    """F = ½‖w‖²: the printed expression tends to 1, the gap to 1/(2(1 − .99²))."""
    known = {
        "smoothness": 1.0,
        "convexity": 1.0,
        "learning_rate": 0.01,
        "noise_square": 1.0,
        "cohort_size": 1,
        "initial_distance_square": 0.0,
    }
    printed = printed_expression(1000, **known, local_epochs=1, gradient_square=0.0)
    expected = 1 / (2 * (1 - 0.99**2))
    np.testing.assert_allclose(printed, 1.0)
    np.testing.assert_allclose(expected, 25.13, atol=0.005)
    np.testing.assert_allclose(one_step_bound(10**4, **known), expected, rtol=1e-6)

    gaps = _noisy_descent(np.ones(1), rate=0.01, cohort=1, rounds=1000, runs=2000)
    np.testing.assert_allclose(gaps[-200:].mean(), expected, rtol=0.05)
    np.testing.assert_allclose(
        gaps[99::100], one_step_bound(np.arange(100, 1001, 100), **known), rtol=0.15
    )
    assert np.all(gaps[20:] > np.asarray(printed))

    smaller_steps = known | {"cohort_size": 10, "learning_rate": 1e-4}
    printed = printed_expression(
        10**6, **smaller_steps, local_epochs=1, gradient_square=0.0
    )
    np.testing.assert_allclose(printed, 100.0)
    np.testing.assert_allclose(one_step_bound(10**6, **smaller_steps), 250.0, rtol=1e-3)
    for text in (printed_expression.__doc__, METHODS.read_text()):
        assert text is not None and "25.13" in text and "no bound" in text


@pytest.mark.hole
@pytest.mark.parametrize("rate", [0.1, 0.7, 0.95])
def test_g2_the_corrected_bound_holds_for_quadratics_of_any_curvature(rate: float):
    """At rate .95 ηL − 1 = .9 is the slower contraction."""
    curvature, cohort, rounds = np.asarray([0.5, 1.0, 2.0]), 4, 200
    gaps = _noisy_descent(curvature, rate=rate, cohort=cohort, rounds=rounds, runs=2000)
    bound = one_step_bound(
        np.arange(1, rounds + 1),
        smoothness=2.0,
        convexity=0.5,
        learning_rate=rate,
        noise_square=1.0,
        cohort_size=cohort,
        initial_distance_square=0.0,
    )
    assert np.all(gaps < np.asarray(bound))
    assert gaps[-50:].mean() > np.asarray(bound)[-1] / 10


def test_a_step_at_which_descent_diverges_has_no_bound():
    known = {k: v for k, v in KNOWN.items() if k[:5] not in ("local", "gradi")}
    with pytest.raises(ValueError, match="2/smoothness"):
        one_step_bound(1, **(known | {"learning_rate": 1.0}))
