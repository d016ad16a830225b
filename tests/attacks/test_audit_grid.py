"""Audit of discrete noise (docs/appendix, P17), with the rounding's coins known.

The games of a world differ in their noise alone, so one upload of all games' numbers
draws it. A client's whole numbers are the same in every game: the claim holds whatever
the coins say, so the adversary may know them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.attacks.epsilon_bounds import gaussian_bound
from fedsvp_jax.mechanisms import discrete_gaussian
from fedsvp_jax.mechanisms import grid as grids
from fedsvp_jax.mechanisms.grid import Grid

GAMES, SIZE, DELTA, CLIP, MULTIPLIER = 4000, 16, 1e-5, 1.0, 1.0
CLAIM = composed_epsilon("rdp", 1 / MULTIPLIER**2, DELTA)
COARSE = 5  # bits with which γ = C for a single client


def whole_numbers(grid: Grid, std: np.float32) -> np.ndarray:
    """(SIZE,) a clipped update on the grid: the longest of eight draws of coins."""
    update = np.full(SIZE, 0.9999 * CLIP / SIZE**0.5)
    step = grids.grid_step(grid, jnp.float32(std))
    found = [
        grids._on_host(
            update,
            np.asarray([seed, 0]),
            np.float32(0),
            step,
            np.float32(CLIP),
            np.float32(0),
            bits=grid.bits,
        )[0]
        for seed in range(8)
    ]
    return max(found, key=np.linalg.norm) * float(step)


def lower_bound(clients: int, bits: int) -> float:
    """ε of a client's upload against none, in the average that is seen."""
    grid = Grid(bits, clients, CLIP)
    std = np.float32(MULTIPLIER * CLIP / clients**0.5)
    update = whole_numbers(grid, std)
    scores = []
    for world, here in enumerate((update, np.zeros(SIZE))):
        sent = []
        for client in range(clients):
            numbers, _ = grids.add_discrete_noise(
                jnp.zeros(GAMES * SIZE),
                jnp.float32(std),
                grid,
                num_examples=1,
                key=jax.random.key(2 * client + world),
            )
            sent.append(numbers)
        sent[0] += jnp.asarray(np.tile(here, GAMES), jnp.float32)
        total = sum(grids.residues(one, grid, std=jnp.float32(std)) for one in sent)
        seen = grids.average(
            total, grid, std=jnp.float32(std), count=jnp.int32(clients)
        )
        released = np.asarray(seen, np.float64).reshape(GAMES, SIZE) * clients
        scores.append((released - update / 2) @ update)
    return gaussian_bound(*scores, delta=DELTA, significance=1e-4)


def halved(right: Callable[..., object]) -> Callable[..., object]:
    """Half the variance."""
    return lambda std, step: right(std, step) / 2


def unclipped(right: Callable[..., object]) -> Callable[..., object]:
    """Rounding that may make a vector longer."""
    return lambda values, *, step, norm_bound, words: right(
        values, step=step, norm_bound=100 * norm_bound, words=words
    )


@pytest.mark.parametrize(("clients", "bits"), [(1, COARSE), (1, 16), (4, 16)])
def test_an_audit_of_discrete_noise_stays_under_its_claim(clients, bits):
    assert 0.6 * CLAIM < lower_bound(clients, bits) < CLAIM


@pytest.mark.parametrize(
    ("function", "bug", "clients", "bits"),
    [
        ("step_variance", halved, 1, 16),
        ("step_variance", halved, 4, 16),
        ("rounded", unclipped, 1, COARSE),
    ],
)
def test_an_audit_of_discrete_noise_catches_a_planted_bug(
    monkeypatch, function, bug, clients, bits
):
    right = getattr(discrete_gaussian, function)
    monkeypatch.setattr(discrete_gaussian, function, bug(right))
    assert lower_bound(clients, bits) > CLAIM


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
