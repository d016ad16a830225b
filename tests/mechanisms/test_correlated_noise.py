"""Noise that is correlated over the rounds: its matrix, its bits, what it hides."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from published import make, served, upload

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.mechanisms import correlated_noise


def matrix(coefficients: np.ndarray, num_rounds: int) -> np.ndarray:
    """The lower triangular Toeplitz matrix of a first column, filled up with zeros."""
    column = np.pad(coefficients, (0, num_rounds))[:num_rounds]
    return scipy.linalg.toeplitz(column, np.zeros(num_rounds))


def banded(num_bands: int, num_rounds: int) -> np.ndarray:
    return matrix(correlated_noise.band_coefficients(num_bands), num_rounds)


@pytest.mark.parametrize("num_bands", [1, 2, 5, 12])
def test_the_noise_solves_the_banded_system(num_bands: int) -> None:
    rounds, size = 12, 7
    past = correlated_noise.inverse_coefficients(num_bands, rounds)
    root, drawn, noise = prng.root_key(3), [], []
    for t in range(rounds):
        drawn.append(prng.normal(jax.random.fold_in(root, t), size))
        found = correlated_noise.round_noise(root, jnp.int32(t), past, size=size)
        noise.append(found)
    np.testing.assert_allclose(
        banded(num_bands, rounds) @ np.stack(noise), np.stack(drawn), atol=2e-6
    )
    np.testing.assert_allclose(
        correlated_noise.growth(past) ** 2, np.sum(matrix(past, rounds) ** 2, axis=1)
    )


def patterns(num_rounds: int, apart: int) -> list[tuple[int, ...]]:
    """Every set of rounds of which any two are `apart` or more from one another."""
    return [
        rounds
        for count in range(1, num_rounds + 1)
        for rounds in itertools.combinations(range(num_rounds), count)
        if all(b - a >= apart for a, b in itertools.pairwise(rounds))
    ]


@pytest.mark.parametrize(("num_rounds", "apart"), [(12, 3), (12, 5), (9, 2), (7, 7)])
def test_no_pattern_of_uploads_moves_more_than_the_bound(
    num_rounds: int, apart: int
) -> None:
    """Adversarial: all uploads in one direction, some turned around."""
    c = banded(apart, num_rounds)
    norm = np.linalg.norm(correlated_noise.band_coefficients(apart))
    tight = 0.0
    for rounds in patterns(num_rounds, apart):
        columns = c[:, rounds]
        for signs in itertools.product((1, -1), repeat=min(len(rounds) - 1, 4)):
            moved = np.ones(len(rounds))
            moved[1 : 1 + len(signs)] = signs
            ratio = np.linalg.norm(columns @ moved) / (norm * np.sqrt(len(rounds)))
            assert ratio <= 1 + 1e-12
            tight = max(tight, ratio)
    assert tight == pytest.approx(1)


SETTINGS = {"noise_multiplier": 2.0, "noise_bands": 5, "l2_norm_clip": 3.0}
SETTINGS |= {"num_clients": 20, "cohort_size": 4, "cohorts": "cyclic", "num_rounds": 12}


def test_the_server_adds_it_and_an_upload_counts_the_bands_norm() -> None:
    mechanism = make("dp_fedavg", **SETTINGS)
    norm = np.linalg.norm(correlated_noise.band_coefficients(5))
    update = jnp.asarray([3.0, 4.0])
    sent, _, info = upload(mechanism, update, round_num=2)
    np.testing.assert_allclose(sent["w"], update * 3 / 5, rtol=3e-6)
    np.testing.assert_allclose(info.noise_multiplier, 2 / norm / 2, rtol=1e-6)
    np.testing.assert_allclose(mechanism.least_multiplier, 2 / norm, rtol=1e-6)
    past = correlated_noise.inverse_coefficients(5, 12)
    std = 2.0 * 3.0 / 2 * correlated_noise.growth(past)[2]
    np.testing.assert_allclose(info.noise_std, std, rtol=1e-6)
    assert not mechanism.basis.against_server and mechanism.basis.central


def after_rounds(mechanism: Any, infos: NoiseInfo, key: jax.Array) -> jax.Array:
    """(T,) what the server adds to a model of one number, by round."""
    state, nothing, taking_part = None, {"w": jnp.zeros((1,))}, jnp.ones((4,), bool)
    added = []
    for t in range(12):
        own = prng.stream_key(prng.round_key(key, t), prng.Stream.SERVER_NOISE)
        now = {"state": state, "key": own, "round_num": t}
        after, state = served(mechanism, nothing, nothing, infos, taking_part, **now)
        added.append(after["w"][0])
    return jnp.stack(added)


def test_an_audit_of_what_the_server_adds_finds_the_claim_and_no_more() -> None:
    """The best test of who took part: the sum of C's columns, over 3,000 runs."""
    mechanism = make("dp_fedavg", **SETTINGS)
    info = upload(mechanism, jnp.ones((1,)))[2]
    infos = jax.tree.map(lambda leaf: jnp.stack([leaf] * 4), info)
    runs = jax.jit(jax.vmap(lambda key: after_rounds(mechanism, infos, key)))
    added = np.asarray(runs(jax.random.split(prng.root_key(0), 3000)))
    c = banded(5, 12)
    for rounds, shortest in ((0, 5, 10), True), ((0, 3, 6), False):
        took_part = np.zeros(12)
        took_part[list(rounds)] = 3.0 / 4  # S in an average of four
        direction = c.T @ c @ took_part  # of the likelihood ratio
        scores = added @ direction
        separation = (took_part @ direction) / scores.std()
        claimed = np.sqrt(len(rounds)) / float(mechanism.least_multiplier)
        if shortest:
            assert separation <= claimed * 1.05
            assert separation >= claimed * 0.85  # the last column is cut short
        else:  # sooner than promised: the audit would notice
            assert separation > claimed * 1.15
