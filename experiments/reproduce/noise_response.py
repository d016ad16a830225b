"""Accuracy against noise: are published accuracies consistent with the formula's noise?

Three numbers belong to a published cell. All are stds of the noise in the *averaged*
model, sqrt(Σ p_i²σ_i²), which is σ/√K for K equal clients:

- the noise that the mechanism's formula gives, computed by the mechanism itself;
- the noise that the accuracy would need, read from a measured curve of accuracy against
  noise;
- their ratio, which a convention (what ε, C and |D| stand for) may or may not explain.

The curve may belong to a smaller model than the published cell. An accuracy is
therefore expressed as a share of the accuracy without noise, which is 1 − the papers'
"percentage below FedAvg".
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

from fedsvp_jax.mechanisms import MechanismConfig, make_mechanism
from fedsvp_jax.structs import Array

LEARNING_RATE = 0.1  # η of the published set-up
FACTOR = 2.0  # two stds agree if they differ by at most this factor


class Response(NamedTuple):
    """A measured curve: share of the noise-free accuracy, falling with the std."""

    std: np.ndarray  # (n,) of the averaged noise, ascending
    share: np.ndarray  # (n,) non-increasing


class Reading(NamedTuple):
    """A std read from a curve; `least` and `most` differ beyond the curve's ends."""

    least: float  # 0 if the share lies above the curve
    most: float  # inf if it lies below

    @property
    def exact(self) -> bool:
        """Whether the share lies on the curve, so that there is one std."""
        return self.least == self.most


class Convention(NamedTuple):
    """What ε, C and |D| may stand for, and the factor that it puts on σ."""

    budget: str
    bound: str
    factor: float  # the std divided by that of the printed formula


def response(
    stds: Sequence[float], accuracies: Sequence[float], noiseless: float
) -> Response:
    """The non-increasing curve nearest to the measured points (isotonic regression).

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
    import scipy.optimize

    order = np.argsort(stds)
    shares = np.asarray(accuracies, np.float64)[order] / noiseless
    fitted = scipy.optimize.isotonic_regression(shares, increasing=False)
    return Response(np.asarray(stds, np.float64)[order], fitted.x)


def share_at(curve: Response, std: float) -> float:
    """The curve at a std: linear in log std between points, constant beyond them."""
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

    It assumes K equal clients of `config.min_num_examples` examples each, at their
    first upload. The mechanism `reestimation` then clips to C, so its std is an upper
    bound.
    """
    stds = np.asarray(_round_stds(mechanism, config, contribution_ratio), np.float64)
    return stds / math.sqrt(config.cohort_size)


@partial(jax.jit, static_argnames="mechanism")
def _round_stds(
    mechanism: str, config: MechanismConfig, contribution_ratio: float
) -> Array:
    """(T,) float32: one compiled program per mechanism, for every ε and convention."""
    instance = make_mechanism(mechanism, config)
    state = instance.init(1)
    state = dataclasses.replace(
        state, clients=jax.tree.map(lambda leaf: leaf[0], state.clients)
    )
    weights = {"w": jnp.zeros((1,), jnp.float32)}

    def std(round_num: Array) -> Array:
        return instance.update(
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
    """Every combination of a budget and a bound, the printed formula first.

    The factor is NbAFL's std under the convention divided by its std as printed, both
    from the mechanism's code. A client uploads T·K/M times on average.
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
        "C on the update: 2C": {"sensitivity": "update_clip"},
        "ηC on the update: 2ηC": {
            "sensitivity": "update_clip",
            "l2_norm_clip": LEARNING_RATE * clip,
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
    """The factor that turns the formula's std into the needed one."""
    return Reading(needed.least / formula, needed.most / formula)


def agrees(needed_factor: Reading, factor: float) -> bool:
    """Whether a convention's factor is within FACTOR of the needed factor."""
    return needed_factor.least / FACTOR <= factor <= needed_factor.most * FACTOR
