"""Two rounds of hospitals' secure sums by hand: NumPy in float64, and none of our code.

The noise is the test's own: it notes the variance that was asked for, hands out normal
numbers, rounded, and takes them off the sum again.
"""

import dataclasses
import math
import pathlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from deployed import ROWS, SUMS

pytest.importorskip("flwr")

from small_runs import digits, small
from sum_sites import CLIENTS, Sites

from fedsvp_jax import federation
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.deploy import Client, data_of, make_policy, noise

ROUNDS, COLLUDERS, BITS, DELTA, EPSILON = 2, 2, 24, 1e-5, 3.0
RATE, MOMENTUM, CLIP = 0.5, 0.9, 4.25
WEIGHTS = (1.0, 3.0, 0.5, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0)
SHARES = (0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.2)
SETTINGS = {
    "model": "logistic",
    "num_rounds": ROUNDS,
    "num_hbc_clients": 0,
    "delta": DELTA,
    "total_epsilon": EPSILON,
    "solve": "noise",
    "l2_norm_clip": CLIP,
    "batch_size": 1000,
    "learning_rate": RATE,
    "learning_rate_schedule": "cosine",
    "server_momentum": MOMENTUM,
    "train_fraction": 1.0,
    "class_share": 0.07,
}


def rows() -> Dataset:
    """Digits as vectors of 64 numbers."""
    data = digits()
    parts = {name: getattr(data, name) for name in ("train_inputs", "test_inputs")}
    flat = {
        name: np.float32(part.reshape(len(part), -1) / 255)
        for name, part in parts.items()
    }
    return dataclasses.replace(data, **flat)


def multiplier() -> float:
    """z of ROUNDS sums that keep the promise, by bisection.

    A round is α/(2z²)-Rényi, and (Canonne, Kamath and Steinke 2020, Proposition 12)
    ε = T·α/(2z²) + log((α − 1)/α) − log(δα)/(α − 1), the least over α.
    """
    orders = 1 + np.exp(np.linspace(-6, 8, 200_001))
    low, high = 0.1, 100.0
    for _ in range(60):
        z = math.sqrt(low * high)
        losses = ROUNDS * orders / (2 * z**2) + np.log1p(-1 / orders)
        losses -= np.log(DELTA * orders) / (orders - 1)
        low, high = (low, z) if losses.min() < EPSILON else (z, high)
    return high


def gradient(
    arrays: list[np.ndarray], rows: np.ndarray, labels: np.ndarray, settings: Any
) -> np.ndarray:
    """(2, 650): the sum of the clipped gradients over B, a row at a time, bias first;
    and the sum of what their absolute values are.
    """
    bias, kernel = (leaf.astype(np.float64) for leaf in arrays)
    total = np.zeros((2, 650))
    weights = WEIGHTS if settings.class_weights else np.ones(10)
    for x, label in zip(rows.astype(np.float64), labels, strict=True):
        logits = kernel @ x + bias
        chances = np.exp(logits - logits.max())
        residual = weights[label] * (chances / chances.sum() - np.eye(10)[label])
        length, features = np.linalg.norm(residual), math.sqrt(1 + x @ x)
        if settings.separate_clips:  # |residual| <= 1 and |(x, 1)| <= C
            shrunk = min(1.0, 1 / float(length)) * min(1.0, CLIP / features)
        else:
            shrunk = min(1.0, CLIP / float(length * features))
        flat = shrunk * np.append(residual, np.outer(residual, x))
        total += flat, np.abs(flat)
    return total / settings.batch_size


def step_of_the_grid(std: float) -> float:
    """γ: 2^b steps have room for K vectors of length C and eight std of all noise."""
    room = 2 * (CLIENTS * CLIP + 8 * math.sqrt(CLIENTS) * std) / 2**BITS
    return 2.0 ** (math.floor(math.log2(room)) + 1)


@pytest.mark.hole
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"separate_clips": True},
        {
            "separate_clips": True,
            "class_weights": ",".join(map(str, WEIGHTS)),
            "class_shares": ",".join(map(str, SHARES)),
        },
        {"class_weights": ",".join(map(str, WEIGHTS))},
    ],
    ids=["whole", "separate", "separate-weighted", "whole-weighted"],
)
def test_two_rounds_of_secure_sums_are_those_of_a_computation_by_hand(
    changes: dict[str, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum was compared with our own simulator alone, which shares its code."""
    config = small(**SUMS | ROWS | SETTINGS | changes)
    data = federation.build([config], rows()).data
    config = dataclasses.replace(config, batch_size=data.split.train.shape[-1] + 9)
    made = make_policy(
        config,
        min_num_examples=data.min_num_examples,
        max_num_examples=data.max_num_examples,
    )
    clients = [
        Client(made, data_of(data, k), tmp_path / str(k)) for k in range(CLIENTS)
    ]
    drawn: list[tuple[Fraction, np.ndarray]] = []
    rng = np.random.default_rng(3)

    def draw(variance: Fraction, number: int, _: Any) -> np.ndarray:
        numbers = np.rint(rng.normal(0, math.sqrt(variance), number)).astype(np.int64)
        drawn.append((variance, numbers))
        return numbers

    monkeypatch.setattr(noise, "discrete_gaussian", draw)
    sites = Sites(tmp_path, clients=clients)
    rounds: list[Any] = []
    sites.run(rounds=ROUNDS, models=rounds)
    sums = [numbers for numbers, _ in rounds]
    models = [sites.initial, *(model for _, model in rounds)]

    batch, counts = int(config.batch_size or 0), np.asarray(data.split.num_train)[0]
    assert counts.max() < batch
    bound = CLIP / batch
    std = multiplier() * bound / math.sqrt(CLIENTS - COLLUDERS)
    step = step_of_the_grid(std)
    kept = 1 - (1 + 1e-6) * step * math.sqrt(650) / bound
    examples = data.examples
    inputs, labels = np.asarray(examples.inputs), np.asarray(examples.labels)
    start = np.zeros(10)
    if config.class_shares:
        told = np.array(SHARES) * WEIGHTS  # what a weighted loss is least at
        start = np.log(told / told.max())
    np.testing.assert_allclose(models[0][0], start, atol=1e-6)
    lengths = np.sqrt(1 + np.sum(np.square(inputs, dtype=float), 1))
    assert 0.1 < np.mean(lengths > CLIP) < 0.9  # some are clipped
    velocity = [np.zeros(10), np.zeros((10, 64))]
    for index in range(ROUNDS):
        received, total, sizes = models[index], np.zeros(650), np.zeros(650)
        for k in range(CLIENTS):
            mine = np.asarray(data.split.train)[0, k, : counts[k]]
            part, size = gradient(received, inputs[mine], labels[mine], config)
            total += np.rint(part * kept / step)
            sizes += size / step
        drawn_now = drawn[CLIENTS * index : CLIENTS * (index + 1)]
        for variance, numbers in drawn_now:
            assert 1 <= math.sqrt(variance) * step / std <= 1 + 2e-3  # rounded up
            total += numbers
        got = np.concatenate([leaf.ravel() for leaf in sums[index]])
        # A clip is less by what float32 may round, and numbers lie between two steps.
        assert np.all(np.abs(got - total) <= CLIENTS + 3e-4 * sizes)
        rate = RATE * (1 + math.cos(math.pi * index / ROUNDS)) / 2
        after = []
        for place, numbers in enumerate(sums[index]):
            moved = -rate * numbers * step / CLIENTS
            velocity[place] = MOMENTUM * velocity[place] + moved
            after.append(received[place] + velocity[place])
        for got, wanted in zip(models[index + 1], after, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
