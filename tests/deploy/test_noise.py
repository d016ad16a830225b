"""An audit of the deployed path: canaries through it."""

import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from deployed import ROWS, SUMS, UPDATE_CLIP, policy, privatize

from fedsvp_jax.attacks.epsilon_bounds import gaussian_bound
from fedsvp_jax.deploy import noise
from fedsvp_jax.deploy.noise import Secret
from fedsvp_jax.deploy.state import new_state
from fedsvp_jax.mechanisms import discrete_gaussian
from fedsvp_jax.mechanisms.discrete_gaussian import seeded_words

GAMES = 500


def lower_bound(seed: int, changes: Any = UPDATE_CLIP) -> float:
    """Of ε at δ = 1e-5, from uploads of a client that is there, or sends zeros.

    With `per_example` a row is, whose gradient is the batch size's part of the sum.
    """
    made = policy(**changes)
    length = 1 / 40 if made.config.uploads_gradient else 1.0
    start, randomness = new_state(made, 30), Secret(seeded_words(seed))
    zeros = [np.zeros((2, 3), np.float32), np.zeros(2, np.float32)]
    far = 5 if length == 1 else length / np.sqrt(8)  # clipped, or clipped before
    canary = [np.full((2, 3), far, np.float32), np.full(2, -far, np.float32)]

    def score(sent: list[np.ndarray]) -> float:
        upload, _, record = privatize(
            zeros, sent, start, policy=made, round_num=1, randomness=randomness
        )
        along = sum(
            float(np.sum(leaf * np.sign(mark)))
            for leaf, mark in zip(upload, canary, strict=True)
        ) / np.sqrt(8)
        return length * (along - length / 2) / record["noise_std"] ** 2

    inside = np.asarray([score(canary) for _ in range(GAMES)])
    outside = np.asarray([score(zeros) for _ in range(GAMES)])
    return gaussian_bound(inside, outside, delta=1e-5, significance=0.01)


@pytest.mark.parametrize("changes", [UPDATE_CLIP, ROWS], ids=["client", "row"])
def test_canaries_find_no_more_than_the_claim(changes: Any) -> None:
    assert 0.3 < lower_bound(1, changes) < 2.0


@pytest.mark.parametrize("numbers", [UPDATE_CLIP, SUMS], ids=["update", "sum"])
def test_a_round_needs_few_copies_of_the_model(
    numbers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its noise took 28 copies of a long update's float32, 25 in a secure sum."""
    monkeypatch.setattr(noise, "_DRAWN", 2**14)
    monkeypatch.setattr(discrete_gaussian, "_AT_ONCE", 2**14)
    made, size = policy(**numbers), 2**20
    zeros = [np.zeros(size, np.float32)]
    sent = [np.linspace(-1, 1, size, dtype=np.float32)]
    start, randomness = new_state(made, 30), Secret(seeded_words(1))
    tracemalloc.start()
    try:
        privatize(zeros, sent, start, policy=made, round_num=1, randomness=randomness)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / sent[0].nbytes < 11


def test_canaries_find_halved_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = noise.step_variance

    def halved(std: float, step: float) -> Fraction:
        return whole(std / 2, step)

    monkeypatch.setattr(noise, "step_variance", halved)
    assert lower_bound(1) > 2.0
