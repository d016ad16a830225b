"""Theorem 2's bound: its terms, and above a run whose constants are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.convergence import convergence_bound

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
    np.testing.assert_allclose(convergence_bound(7, **KNOWN), expected, rtol=1e-6)


def test_it_falls_with_the_rounds_to_its_floor_and_rises_with_the_noise():
    bounds = np.asarray(convergence_bound(jnp.arange(200), **KNOWN))
    assert np.all(np.diff(bounds) <= 0)
    far = convergence_bound(10**5, **(KNOWN | {"initial_distance_square": 0.0}))
    np.testing.assert_allclose(convergence_bound(10**5, **KNOWN), far)
    assert convergence_bound(5, **(KNOWN | {"noise_square": 1.0})) > bounds[5]


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
        convergence_bound(1, **(KNOWN | {name: value}))


def test_a_noised_run_on_a_quadratic_stays_below_the_bound():
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
    bound = convergence_bound(
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
    assert np.all(np.mean(gaps, axis=0) < np.asarray(bound))
