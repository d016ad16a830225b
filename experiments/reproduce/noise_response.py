"""Can published accuracies follow from the published noise formula?

Three numbers for a published cell, all of them the std of the noise in the *averaged*
model, sqrt(Σ p_i²σ_i²), which at K equal clients is σ/√K:

- what the mechanism's formula gives, computed by the mechanism itself;
- what the accuracy would need, read off a measured curve of accuracy against std;
- their quotient, which a convention (whose ε, C and |D|) may or may not explain.

The curve may belong to a smaller model than the published cell. So an accuracy is
compared as a share of the accuracy without noise, 1 − the papers' "percentage below
FedAvg".
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from fedsvp_jax.mechanisms import MechanismConfig, make_mechanism
from fedsvp_jax.structs import Array

LEARNING_RATE = 0.1  # η of the published set-up
FACTOR = 2.0  # formula and table agree when they differ by no more than this


class Response(NamedTuple):
    """A measured curve: share of the noiseless accuracy, falling with the std."""

    std: np.ndarray  # (n,) of the averaged noise, ascending
    share: np.ndarray  # (n,) non-increasing


class Reading(NamedTuple):
    """A std read off a curve; `least` and `most` differ beyond the curve's ends."""

    least: float  # 0 where the share lies above the curve
    most: float  # inf where it lies below

    @property
    def exact(self) -> bool:
        """Whether the curve holds the share, so that there is one std."""
        return self.least == self.most


class Convention(NamedTuple):
    """A reading of what ε, C and |D| stand for, and what it does to σ."""

    budget: str
    bound: str
    factor: float  # of the std against the printed formula


def response(
    stds: Sequence[float], accuracies: Sequence[float], noiseless: float
) -> Response:
    """The non-increasing curve nearest to the measured points (isotonic, by squares).

    Args:
      stds: of the averaged noise, > 0, in any order.
      accuracies: measured at each of them.
      noiseless: accuracy without noise, > 0.

    Raises:
      ValueError: fewer than two points, or a std or `noiseless` that is not > 0.
    """
    if len(stds) < 2 or min(stds) <= 0 or noiseless <= 0:
        raise ValueError(
            "a response needs two or more stds > 0 and a noiseless accuracy > 0, got "
            f"{list(stds)} and {noiseless}"
        )
    order = np.argsort(stds)
    shares = np.asarray(accuracies, np.float64)[order] / noiseless
    fitted = scipy.optimize.isotonic_regression(shares, increasing=False)
    return Response(np.asarray(stds, np.float64)[order], fitted.x)


def share_at(curve: Response, std: float) -> float:
    """The curve at a std, straight between points in log std, level beyond."""
    return float(np.interp(math.log(std), np.log(curve.std), curve.share))


def noise_needed(curve: Response, share: float) -> Reading:
    """The std at which the curve takes the value `share`."""
    if share > curve.share[0]:
        return Reading(0.0, float(curve.std[0]))
    if share < curve.share[-1]:
        return Reading(float(curve.std[-1]), math.inf)
    log_std = np.interp(share, curve.share[::-1], np.log(curve.std)[::-1])
    return Reading(math.exp(log_std), math.exp(log_std))


def averaged_stds(
    mechanism: str, config: MechanismConfig, *, contribution_ratio: float
) -> np.ndarray:
    """Std of the averaged noise in every round, (T,), from the mechanism itself.

    K equal clients of `config.min_num_examples` examples each, at their first
    upload: `sensitivity` then clips to C, so its number is an upper bound.
    """
    stds = np.asarray(_round_stds(mechanism, config, contribution_ratio), np.float64)
    return stds / math.sqrt(config.cohort_size)


@partial(jax.jit, static_argnames="mechanism")
def _round_stds(
    mechanism: str, config: MechanismConfig, contribution_ratio: float
) -> Array:
    """(T,) float32: one program a mechanism, for every ε and convention."""
    made = make_mechanism(mechanism, config)
    state = made.init(1)
    state = dataclasses.replace(
        state, clients=jax.tree.map(lambda leaf: leaf[0], state.clients)
    )
    weights = {"w": jnp.zeros((1,), jnp.float32)}

    def std(round_num: Array) -> Array:
        return made.update(
            weights,
            state,
            key=jax.random.key(0),
            num_examples=jnp.asarray(config.min_num_examples, jnp.float32),
            contribution_ratio=jnp.asarray(contribution_ratio, jnp.float32),
            round_num=round_num,
            params=weights,
        )[2].noise_std

    return jax.vmap(std)(jnp.arange(config.num_rounds, dtype=jnp.int32))


def formula_std(
    mechanism: str, config: MechanismConfig, *, contribution_ratio: float = 0.5
) -> float:
    """Root mean square of `averaged_stds` over the rounds."""
    stds = averaged_stds(mechanism, config, contribution_ratio=contribution_ratio)
    return float(np.sqrt(np.mean(np.square(stds))))


def conventions(config: MechanismConfig) -> list[Convention]:
    """Every pair of a budget and a bound, the printed formula first.

    The factor is NbAFL's std under the convention over its std as printed, both from
    the mechanism's code. A client uploads T·K/M times on average.
    """
    uploads = config.num_rounds * config.cohort_size / config.num_clients
    clip, size = float(config.l2_norm_clip), float(config.min_num_examples)
    budgets = {
        "ε per upload": 1.0,
        f"ε per run of {uploads:g} uploads, Gaussian composition": math.sqrt(uploads),
        f"ε per run of {uploads:g} uploads, basic composition": uploads,
    }
    everyone = size * config.num_clients
    bounds: dict[str, dict[str, Any]] = {
        "C on the gradient, |D| of the client: 2C/|D|": {},
        "C on the gradient, |D| of all M clients": {"min_num_examples": everyone},
        "ηC on the gradient, |D| of the client": {"l2_norm_clip": LEARNING_RATE * clip},
        "ηC on the gradient, |D| of all M clients": {
            "l2_norm_clip": LEARNING_RATE * clip,
            "min_num_examples": everyone,
        },
        "C on the update: 2C": {"sensitivity": "update_clip", "update_clip": clip},
        "ηC on the update: 2ηC": {
            "sensitivity": "update_clip",
            "update_clip": LEARNING_RATE * clip,
        },
        "C on the weights: 2C": {"sensitivity": "weight_clip"},
    }
    printed = formula_std("nbafl", config)
    return [
        Convention(
            budget,
            bound,
            formula_std(
                "nbafl",
                dataclasses.replace(
                    config, epsilon=float(config.epsilon) / divisor, **changes
                ),
            )
            / printed,
        )
        for (budget, divisor), (bound, changes) in itertools.product(
            budgets.items(), bounds.items()
        )
    ]


def quotient(needed: Reading, formula: float) -> Reading:
    """By what factor the formula's std must be multiplied to give the needed one."""
    return Reading(needed.least / formula, needed.most / formula)


def agrees(needed_factor: Reading, factor: float) -> bool:
    """Whether a convention's factor brings a cell within FACTOR of its accuracy."""
    return needed_factor.least / FACTOR <= factor <= needed_factor.most * FACTOR
