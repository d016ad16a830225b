"""Shapley values of attributes and the contribution ratio R.

Where all 2**N utilities are known, a coalition of N attributes is a bitmask: bit a is
set when attribute a is present. Otherwise it is a row of N booleans.
FedSVA (arXiv 2503.12958v2, sec. 3.1) takes the validation accuracy of the model
fine-tuned on the coalition's data as utility.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.settings import MAX_ATTRIBUTES, NEEDS_ESTIMATION, Settings, setting
from fedsvp_jax.core.structs import Array

from .coalitions import coalition_rows

MAX_EXACT = 10  # attributes: 2**10 - 2 = 1022 extra trainings per client and round
MOST_DESIGNED = 256  # coalitions of gp's design beyond those that lack one
DEGENERATE_TOTAL = 1e-6  # |Σψ| under this carries no information about shares


class ContributionRatio(NamedTuple):
    """R and its flags; every leaf has the batch shape of the values."""

    ratio: Array  # (...) float: R, in [0, 1] when clipped
    was_clipped: Array  # (...) bool: not degenerate, and the raw ratio outside [0, 1]
    was_degenerate: Array  # (...) bool: |Σψ| < 1e-6, so R = 1


@dataclasses.dataclass(frozen=True)
class ShapleySettings(Settings):
    """Estimation: how the attributes' Shapley values are computed."""

    shapley: str = setting(
        "exact",
        "exact: train every coalition of attributes, 2^N - 2 extra trainings, N up to "
        "10. additive: train each attribute alone, blend their models for all other "
        "coalitions, and correct the blend by --shapley_trainings of random coalitions "
        "and their complements: unbiased. gp: correct it by a Gaussian process, whose "
        "--shapley_trainings are chosen beforehand: nearest, with an interval.",
        choices=("exact", "additive", "gp"),
        needs=NEEDS_ESTIMATION,
    )
    shapley_trainings: int = setting(
        6,
        "Trainings of further coalitions per client and round. With additive an even "
        "number, half of them complements; they make the estimate unbiased "
        "and give it a standard error; 0 leaves the blend as it is.",
        at_least=0,
        at_most=10_000,
        needs="shapley=additive|gp",
    )
    utility: str = setting(
        "accuracy",
        "What a coalition's model is worth on the client's validation set: accuracy, "
        "as published, or loss (how much lower the mean cross-entropy is than that of "
        "guessing, in nats).",
        choices=("accuracy", "loss"),
        needs=NEEDS_ESTIMATION,
    )


def check_settings(config: ShapleySettings, num_attributes: int) -> None:
    """Refuses an estimator that does not fit the number of attributes.

    Raises:
      ValueError: more than MAX_ATTRIBUTES attributes, or MAX_EXACT with exact, or a
        number of trainings that cannot be paired, or that gp's design does not have.
    """
    if num_attributes > MAX_ATTRIBUTES:
        raise ValueError(
            f"num_attributes must be at most {MAX_ATTRIBUTES}, got {num_attributes}: "
            "merge attributes in the data, for example all rare categories into one"
        )
    kind, number = config.shapley, config.shapley_trainings
    if kind == "exact" and num_attributes > MAX_EXACT:
        raise ValueError(
            f"num_attributes must be at most {MAX_EXACT} with shapley=exact, got "
            f"{num_attributes}: choose --shapley=gp"
        )
    if kind == "additive" and number % 2:
        raise ValueError(
            f"shapley_trainings must be even, because they come in pairs, got {number}"
        )
    if kind == "gp" and (
        number < 1 or (number > MOST_DESIGNED and num_attributes > MAX_EXACT)
    ):
        raise ValueError(
            "shapley_trainings must be at least 1 with gp, and at most "
            f"{MOST_DESIGNED} where more than {MAX_EXACT} play, got {number}"
        )


@functools.cache
def weights(num_attributes: int) -> np.ndarray:
    """(2**N, N) float64: the linear map from utilities to Shapley values.

    The marginal gain of a on top of S counts |S|!(N−|S|−1)!/N! = 1/(N·binom(N−1, |S|))
    of all orders.
    """
    n = num_attributes
    gain = np.asarray([1 / (n * math.comb(n - 1, size)) for size in range(n)])
    present = coalition_rows(range(2**n), n)
    size = present.sum(1, keepdims=True)
    return np.where(present, gain[size - 1], -gain[np.minimum(size, n - 1)])


def _floats(values: Array | np.ndarray) -> tuple[Any, Any]:
    """NumPy or `jax.numpy`, whichever computes with the values, and them as floats.

    Whole numbers and bools become its widest float, and no float loses its precision:
    JAX would make NumPy's float64 a float32.
    """
    xp = jnp if isinstance(values, jax.Array) else np
    values = xp.asarray(values)
    is_float = xp.issubdtype(values.dtype, xp.floating)
    return xp, values if is_float else values.astype(xp.zeros(()).dtype)


def exact_shapley(utilities: Array | np.ndarray) -> Array:
    """Exact Shapley values, as one matrix product.

        ψ_a = (1/N!) Σ_π [U(P_a^π ∪ {a}) − U(P_a^π)]
            = Σ_{S ∌ a} |S|!(N−|S|−1)!/N! · [U(S ∪ {a}) − U(S)]

    Args:
      utilities: (..., 2**N), N in 1…10; entry m is the utility of the coalition whose
        bits are set in m, entry 0 is U(∅).

    Returns:
      (..., N) values; they sum to U(all) − U(∅). Floats keep their dtype. NumPy
      computes what is no array of JAX's, whole numbers and bools in float64.

    Raises:
      ValueError: the last axis is not 2**N with N in 1…10.

    Source: FedSVA (arXiv 2503.12958v2, sec. 3.1).
    """
    xp, utilities = _floats(utilities)
    size = utilities.shape[-1] if utilities.ndim else 0
    num_attributes = size.bit_length() - 1
    if not 1 <= num_attributes <= MAX_EXACT or size != 2**num_attributes:
        raise ValueError(
            "the last axis of utilities must be 2**N with N from 1 to "
            f"{MAX_EXACT}, got {size}"
        )
    table = xp.asarray(weights(num_attributes), utilities.dtype)
    with jax.default_matmul_precision("highest"):
        return xp.matmul(utilities, table)


class SampledValues(NamedTuple):
    """Estimates with the standard errors that follow from how they were drawn."""

    values: Array  # (N,) float
    standard_errors: Array  # (N,) float; nan with a single draw


def sampled_shapley(
    utility: Callable[[Array], Array],
    num_attributes: int,
    *,
    num_permutations: int,
    key: Array,
) -> SampledValues:
    """Monte-Carlo Shapley values: mean marginal gain over random orders.

        ψ̂_a = (1/P) Σ_{p<P} [U(S_a^p ∪ {a}) − U(S_a^p)]

    Each order is gone through backwards too (antithetic orders), and the mean of both
    is one draw. Unbiased; the gains of one order telescope, so ψ̂ sums to U(all) − U(∅)
    exactly, whatever P. For N beyond the power set's reach: it asks for 2 P·(N + 1)
    utilities instead of 2**N. The orders are gone through one after another.

    Args:
      utility: coalition (N,) bool -> (); it is vmapped over one order.
      num_attributes: N ≥ 1.
      num_permutations: P ≥ 1.
      key: a PRNG key.
    """
    orders = jax.vmap(lambda k: jax.random.permutation(k, num_attributes))(
        jax.random.split(key, num_permutations)
    )
    steps = jnp.arange(num_attributes + 1)

    def gains(order: Array) -> Array:
        ranks = jnp.argsort(order)  # the place of each attribute
        _, utilities = _floats(jax.vmap(utility)(ranks[None, :] < steps[:, None]))
        return jnp.diff(utilities)[ranks]

    draws = jax.lax.map(  # (P, N)
        lambda order: (gains(order) + gains(order[::-1])) / 2, orders
    )
    errors = jnp.std(draws, axis=0, ddof=1) / math.sqrt(num_permutations)
    return SampledValues(jnp.mean(draws, axis=0), errors)


def contribution_ratio_with_flags(
    values: Array | np.ndarray, private: Array | int, *, clip: bool = True
) -> ContributionRatio:
    """R = ψ_p / Σ_a ψ_a, with the events that make it other than that.

    Σψ = U(all) − U(∅) can be near 0, or of the other sign than ψ_p, so R has no
    bound of its own. Where |Σψ| < 1e-6, or Σψ is not finite (the loss of a model that
    diverged), the shares mean nothing and R is 1, the most private answer (ours: the
    paper names no rule). Otherwise R is clipped to [0, 1] when `clip` is true.

    Args:
      values: (..., N) Shapley values; dtypes are those of `exact_shapley`.
      private: index p of the private attribute, in [0, N).

    Raises:
      ValueError: a concrete `private` outside [0, N).

    Source: FedSVA (arXiv 2503.12958v2, sec. 3.1).
    """
    xp, values = _floats(values)
    num_attributes = values.shape[-1]
    if isinstance(private, int) and not 0 <= private < num_attributes:
        raise ValueError(
            f"private must be an attribute id in [0, {num_attributes}), got {private}"
        )
    total = xp.sum(values, axis=-1)
    degenerate = ~(xp.abs(total) >= DEGENERATE_TOTAL) | xp.isinf(total)
    unit = xp.ones((), values.dtype)
    raw = xp.take(values, private, axis=-1) / xp.where(degenerate, unit, total)
    outside = (raw < 0) | (raw > 1)
    return ContributionRatio(
        ratio=xp.where(degenerate, unit, xp.clip(raw, 0, 1) if clip else raw),
        was_clipped=outside & ~degenerate,
        was_degenerate=degenerate,
    )


def contribution_ratio(
    values: Array | np.ndarray, private: Array | int, *, clip: bool = True
) -> Array:
    """R = ψ_p / Σ_a ψ_a of shape (...): see `contribution_ratio_with_flags`."""
    return contribution_ratio_with_flags(values, private, clip=clip).ratio
