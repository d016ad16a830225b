"""The law of a mechanism: what is counted is added, and what is said is spent."""

import math

import jax
import numpy as np

from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig
from fedsvp_jax.mechanisms.calibration import gaussian_epsilon
from fedsvp_jax.mechanisms.noise_check import player

_LOOKED_AT = 64  # rounds of a run, at most
_ROUNDING = 1e-5, 1e-6  # of an ε of float32: relative, absolute


def check_noise(
    mechanism: Mechanism, config: MechanismConfig, *, uniform: bool = False
) -> None:
    """Refuses a proved claim whose uploads do not carry the noise that is counted.

    The smallest and the largest client are played, and cohorts of both. Without
    `uniform` a client weighs as many as it has examples.

    Raises:
      ValueError: an upload, or the average that the claim is about, counts less than
        `least_multiplier` or spends more than `most_epsilon`, on which a promise rests;
        or it counts more noise than it has for sure, whatever R is; or its (ε, δ) is
        less than a Gaussian of that noise spends.
    """
    rounds = np.unique(
        np.linspace(0, config.num_rounds - 1, _LOOKED_AT).astype(np.int32)
    )
    ratios = np.linspace(0, 1, 9, dtype=np.float32)  # where none is read, it is 1
    upload = jax.vmap(player(mechanism), (None, 0, None))
    of_sizes = jax.vmap(jax.vmap(upload, (None, None, 0)), (0, None, None))
    numbers = _sizes(config)
    infos = jax.device_get(jax.jit(of_sizes)(numbers, ratios, rounds))

    def refuse(wrong: np.ndarray, rule: str, values: np.ndarray) -> None:
        for size, at, ratio in zip(*np.nonzero(wrong), strict=True):
            where = f"round {rounds[at] + 1} at R = {ratios[ratio]:g}"
            client = (
                f" of a client of {numbers[size]} examples" if len(numbers) > 1 else ""
            )
            raise ValueError(
                f"{rule}, got {values[size, at, ratio]:g} in {where}{client}"
            )

    claim = mechanism.basis
    if not claim.proved:
        return
    possible = (ratios == 1) | mechanism.needs_contribution
    counted, slack = infos.noise_multiplier, 1 + _ROUNDING[0]
    subject, multiplier = "an upload", counted
    if claim.central:
        subject, weight = "a cohort's average", numbers.astype(float)
        if uniform or mechanism.uniform_weights:
            weight = np.ones(len(numbers))
        multiplier = _averaged_multiplier(
            claim.view, config, infos, weight[:, None, None], possible
        )
    limits = mechanism.least_multiplier, mechanism.most_epsilon, mechanism.most_delta
    least_multiplier, most_epsilon, most_delta = (
        np.broadcast_to(np.asarray(limit, float), config.num_rounds)[rounds, None]
        for limit in limits
    )
    private = (least_multiplier < math.inf) & possible
    rule = f"noise_multiplier of {subject} must be at least least_multiplier"
    refuse((multiplier * slack < least_multiplier) & private, rule, multiplier)
    std = infos.noise_std + infos.step_noise_std
    sure = np.where(possible, std / infos.sensitivity, math.inf).min(2, keepdims=True)
    rule = "counted_multiplier must be at most the least that a noise has at any R"
    refuse((counted > slack * sure) & possible, rule, counted)
    promised = (claim.any_epsilon | (infos.epsilon < 1)) & possible  # else nominal
    spent = _spent(np.where(promised, multiplier, math.inf), infos.delta)
    rule = f"epsilon of {subject} must be at least what its noise spends at its delta"
    refuse(
        promised & (spent > infos.epsilon * slack + _ROUNDING[1]), rule, infos.epsilon
    )
    for name, value, limit in (
        ("epsilon", infos.epsilon, most_epsilon),
        ("delta", infos.delta, most_delta),
    ):
        rule = f"{name} of {subject} must be at most most_{name}"
        refuse((value > limit * slack + _ROUNDING[1]) & private, rule, value)


def _sizes(config: MechanismConfig) -> np.ndarray:
    """Of the smallest and the largest client, (1,) where they are of one size."""
    return np.unique(
        np.asarray([config.min_num_examples, config.max_num_examples], np.int32)
    )


def _averaged_multiplier(
    view: str,
    config: MechanismConfig,
    infos: NoiseInfo,
    weight: np.ndarray,
    possible: np.ndarray,
) -> np.ndarray:
    """(sizes, rounds, ratios): z of a cohort's average, as the view counts it.

        z_i² (1 + Σ_j n_j² σ_j² / (n_i σ_i)²), σ = zΔ as it is counted

    Over all others j that the view does not know, each with the least n_j σ_j.
    """
    num_known = {"observer": 0, "curious_client": 1}.get(view, config.colluders)
    std = weight * infos.noise_multiplier * infos.sensitivity
    lowest_std = np.where(possible, std, math.inf).min((0, 2), keepdims=True)
    num_others = max(config.cohort_size - 1 - num_known, 0)
    ratio = np.divide(lowest_std, std, out=np.zeros(std.shape), where=std > 0)
    return np.asarray(infos.noise_multiplier * np.sqrt(1 + num_others * ratio**2))


def _spent(multiplier: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Exact ε of one Gaussian each, at δ; 0 from δ = 1 on."""
    pairs, where = np.unique(
        np.stack([multiplier, delta]).reshape(2, -1), axis=1, return_inverse=True
    )

    def epsilon_of(z: float, delta: float) -> float:
        if delta >= 1 or z == math.inf:
            return 0.0
        return gaussian_epsilon(z**-2, delta) if delta > 0 and z > 0 else math.inf

    epsilons = np.asarray(
        [epsilon_of(*pair) for pair in pairs.T.astype(float).tolist()]
    )
    return epsilons[where.ravel()].reshape(multiplier.shape)
