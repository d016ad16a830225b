"""Drawn calls of every mechanism × release: each upload has its noise, each ledger its
promise, whatever training says of R and of the update."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deployed import model, policy, privatize
from published import make, published

from fedsvp_jax import mechanisms
from fedsvp_jax.core.prng import Address
from fedsvp_jax.core.settings import NEEDS_ESTIMATION
from fedsvp_jax.deploy import Refused
from fedsvp_jax.deploy.answer import charge
from fedsvp_jax.deploy.state import new_state
from fedsvp_jax.round import client_work

RELEASES = (*NEEDS_ESTIMATION.partition("=")[2].split("|"), "worst_case")
NOISY = [name for name in mechanisms.mechanism_names() if name != "none"]
GUIDED = [name for name in NOISY if make(name).needs_contribution]
FIXED = ("nbafl", "time_varying", "dpa", "gaussian")
SIMULATED = [
    (name, release)
    for name in NOISY
    for release in (RELEASES if name in GUIDED else RELEASES[-1:])
]
DEPLOYED = [
    (name, release)
    for name, release in SIMULATED
    if release != "laplace" and name in (*GUIDED, *FIXED)
]
ODD = np.float32([math.nan, math.inf, -math.inf, -1e9, 3e38, -0.0, 0, 1, 2])
LEAST = 50  # examples of a client
ROUNDS = 8


def ratios(rng: np.random.Generator, size: int) -> np.ndarray:
    """What training may say of R: any bits of a float32, odd ones, and usual ones."""
    kinds = (
        rng.integers(0, 2**32, size, np.uint32).view(np.float32),
        rng.choice(ODD, size),
        rng.uniform(-1, 2, size).astype(np.float32),
    )
    return np.choose(rng.integers(0, 3, size), kinds).astype(np.float32)


def updates(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Of any size; some hold numbers that are none."""
    size = 10.0 ** rng.uniform(-30, 30, (shape[0], *[1] * (len(shape) - 1)))
    drawn = np.float32(rng.normal(size=shape) * size)
    return np.where(rng.random(shape) < 0.01, rng.choice(ODD, shape), drawn)


@pytest.mark.parametrize("calls", [1_000, pytest.param(75_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "release"), SIMULATED)
def test_drawn_calls_of_a_simulated_client_have_the_noise_that_was_planned(
    name: str, release: str, calls: int
) -> None:
    config = published(
        name, contribution_release=release, num_rounds=ROUNDS,
        min_num_examples=float(LEAST),
    )  # fmt: skip
    mechanism, rng = mechanisms.make_mechanism(name, config), np.random.default_rng(0)
    root = jax.random.key(0)

    def one(index: Any, ratio: Any, update: Any, examples: Any, round_num: Any) -> Any:
        at = Address(jax.random.fold_in(root, index), jnp.int32(0), round_num)
        upload, _, info = client_work.add_noise(
            mechanism,
            [update],
            mechanism.init(1).of(0),
            num_examples=examples,
            ratio=client_work.released_ratio(ratio, config, at),
            params=[jnp.zeros_like(update)],
            at=at,
        )
        return upload[0], info

    drawn, rounds = ratios(rng, calls), rng.integers(0, ROUNDS, calls)
    trained = updates(rng, (calls, 12))
    upload, info = jax.device_get(
        jax.jit(jax.vmap(one))(
            np.arange(calls),
            drawn,
            trained,
            np.int32(2 ** rng.uniform(math.log2(LEAST), 30, calls)),
            np.int32(rounds),
        )
    )
    assert np.all(np.isfinite(info.noise_std) & (info.noise_std > 0))
    assert np.all(info.noise_l2 > 0)
    finite = np.all(np.isfinite(trained), axis=1)
    assert np.all(np.isfinite(upload[finite])) and 0 < np.mean(finite) < 1
    shares = math.sqrt(config.cohort_size) if mechanism.basis.central else 1.0
    least = np.broadcast_to(mechanism.least_multiplier, ROUNDS)[rounds]
    assert np.all(info.noise_multiplier * shares >= least * (1 - 1e-6))
    most = np.broadcast_to(mechanism.most_epsilon, ROUNDS)[rounds]
    assert np.all(info.epsilon <= most * (1 + 1e-6))
    moved = np.sum(info.noise_l2.astype(float) ** 2 / info.noise_std**2)
    assert abs(moved / (12 * calls) - 1) < 6 * math.sqrt(2 / (12 * calls))


@pytest.mark.parametrize("clients", [3, pytest.param(1_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "release"), DEPLOYED)
def test_drawn_calls_of_a_deployed_client_keep_the_promise(
    name: str, release: str, clients: int
) -> None:
    """A client answers while its promise of two uploads and a half has room."""
    agreed = {"mechanism": name, "contribution_release": release}
    loose, received = policy(**agreed), model()
    once = charge(new_state(loose, 20), received, policy=loose, round_num=5)
    promise = 2.5 * once.account(loose).epsilon_spent("rdp")
    made = policy(**agreed, total_epsilon=promise)
    rng, answered = np.random.default_rng(0), 0
    for told in ratios(rng, clients * 5).reshape(clients, 5):
        state = new_state(made, int(rng.integers(20, 1_000)))
        for round_num, ratio in enumerate(told, 1):
            sent = [updates(rng, leaf[None].shape)[0] for leaf in received]
            try:
                upload, state, record = privatize(
                    received,
                    sent,
                    state,
                    policy=made,
                    round_num=round_num,
                    contribution=float(ratio),
                )
            except Refused as refusal:
                assert "would exceed this client's promise" in str(refusal)
                break
            answered += 1
            assert 0 < record["noise_std"] < math.inf
            assert all(np.all(np.isfinite(leaf)) for leaf in upload)
            assert record["epsilon_spent"]["rdp"] <= promise
    assert answered >= clients
