"""Plays recorded games: every estimator against the exact values, and against others.

Utilities are looked up, so nothing is trained. U(none) is what the broadcast model is
worth; errors of R are those of --empty_utility=zero, the default of runs. Ours play by
the functions that clients run.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import shapley
from fedsvp_jax.algorithm import coalitions, estimators
from fedsvp_jax.structs import Array, Weights

from .rivals import RIVALS, Known

PRIVATE = 0  # whose share R is
REPEATS = 3  # draws of an estimator that draws


class Result(NamedTuple):
    """One estimator on one game: means over the draws."""

    value_error: float  # root mean square over the values
    ratio_error: float
    tau: float  # Kendall's, of the ranks
    covered: float | None  # share of values within their 95 % intervals
    margin: float | None  # mean half width


class Looked(NamedTuple):
    """Stands for `evaluation.Validation`: a model is its coalition's bitmask."""

    worth: Array  # (2**N,)
    resolution: float

    def utility(self, params: Any, stats: Any) -> Array:
        """() float32: the coalition's."""
        return self.worth[params]


def _game(worth: Array, counts: Array, resolution: float) -> estimators.Game:
    number = counts.shape[0]
    bits = 2 ** jnp.arange(number, dtype=jnp.int32)
    return estimators.Game(
        num_attributes=number,
        groups=(coalitions.Group(1, (2**number - 1,)),),
        batch_size=1,
        start=Weights(jnp.int32(0), {}),
        train=lambda row, _: Weights(jnp.sum(jnp.where(row, bits, 0)), {}),
        validation=Looked(worth, resolution),  # type: ignore[arg-type]
        counts=counts,
        empty=worth[0],
    )


@functools.partial(jax.jit, static_argnames=("name", "number"))
def ours(
    name: str,
    number: int,
    worth: Array,
    blend: Array,
    counts: Array,
    resolution: float,
    key: Array,
) -> estimators.Values:
    """An estimator of `--shapley` with so many random trainings, by table."""
    game = _game(worth, counts, resolution)
    bits = 2 ** jnp.arange(counts.shape[0], dtype=jnp.int32)

    def near_worth(row: Array) -> Array:
        return blend[jnp.sum(jnp.where(row, bits, 0))]

    near = estimators.Surrogate(
        near_worth, *estimators.surrogate_values(near_worth, counts.shape[0], key)
    )
    if name == "gp":
        return estimators.process_corrected(game, near, key, number)
    return estimators.corrected(game, near, key, number // 2)


class Entry(NamedTuple):
    """What a game is played by."""

    worth: np.ndarray  # (2^N,) by bitmask
    blend: np.ndarray  # (2^N,), exact for none, one and all
    counts: Any  # (N,) examples by player
    resolution: float  # the least step of a utility


def entry(row: dict[str, Any], utility: str) -> Entry:
    """A recorded game with one of its utilities."""
    worth = np.asarray(row["worth"][utility])
    blend = np.asarray(row["blend"][utility])
    number = row["players"]
    for mask in (0, 2**number - 1, *(1 << a for a in range(number))):
        blend[mask] = worth[mask]  # known exactly, but for rounding
    resolution = 1 / row["validation"] if utility == "accuracy" else 0.0
    return Entry(worth, blend, row["counts"], resolution)


def entrants(number: int) -> dict[str, tuple[int, Callable[..., Any] | None]]:
    """Name -> coalitions trained beside the local model, and a rival's function.

    Names of ours are NAME:M as `--shapley` takes them.
    """
    mine: dict[str, tuple[int, Callable[..., Any] | None]] = {
        "equal:0": (0, None),
        "additive:0": (number, None),
        "gp:N": (2 * number, None),
        "gp:2N": (3 * number, None),
        "gp:3N": (4 * number, None),
        "additive:N": (2 * number, None),
        "additive:3N": (4 * number, None),
    }
    for name, play in RIVALS.items():
        for times in (2, 4):
            mine[f"{name}, {times}N"] = (times * number, play)
    return mine


def play(
    row: dict[str, Any], utility: str, *, rivals: bool = True
) -> dict[str, Result]:
    """Every entrant on one recorded game."""
    worth, blend, counts, resolution = entry(row, utility)
    number = row["players"]
    known = Known(worth, shapley.weights(number))
    truth = worth @ known.shapley
    found = {}
    for name, (asked, rival) in entrants(number).items():
        kind, _, drawn = name.partition(":")
        if rival is not None and not (rivals and _can_play(name, number)):
            continue
        draws = []
        for seed in range(REPEATS):
            margins = None
            if rival is not None:
                if asked > 2**number - 2:
                    break
                values = rival(known, asked, seed)
                if values is None:
                    break
            elif kind == "equal":
                values = np.full(number, (worth[-1] - worth[0]) / number)
            else:
                times = {"0": 0, "N": 1, "2N": 2, "3N": 3}[drawn]
                told = ours(
                    kind,
                    times * number // 2 * 2 if kind == "additive" else times * number,
                    jnp.asarray(worth, jnp.float32),
                    jnp.asarray(blend, jnp.float32),
                    jnp.asarray(counts, jnp.int32),
                    resolution,
                    jax.random.key(seed),
                )
                values = np.asarray(told.values, float)
                if told.margins is not None and np.isfinite(told.margins).all():
                    margins = np.asarray(told.margins, float)
            draws.append((values, margins))
            if name in _DRAWN_ONCE:
                break
        if draws:
            found[name] = _result(truth, draws, worth[0])
    return found


def _can_play(name: str, number: int) -> bool:
    """ShaplEIG's rule holds the covariance of all coalitions; SPEX is for many."""
    known = number <= shapley.MAX_EXACT
    return not name.startswith("ProxySPEX" if known else "ShaplEIG")


# They draw nothing, or take a second for each game.
_DRAWN_ONCE = {"equal:0", "additive:0"} | {
    f"{name}, {times}N"
    for name in ("ShaplEIG's rule (our code)", "ProxySPEX (shapiq)")
    for times in (2, 4)
}


def _result(truth: np.ndarray, draws: Sequence[Any], empty: float) -> Result:
    def ratio(values: np.ndarray) -> float:
        zero = values + empty / len(values)  # with U(none) = 0
        return float(shapley.contribution_ratio(jnp.asarray(zero), PRIVATE))

    def tau(values: np.ndarray) -> float:
        upper = np.triu_indices(len(values), 1)
        pairs = [np.sign(v[:, None] - v)[upper] for v in (truth, values)]
        return float(np.mean(pairs[0] * pairs[1]))

    errors = [math.sqrt(np.mean((values - truth) ** 2)) for values, _ in draws]
    inside = [np.mean(abs(v - truth) <= m + 1e-6) for v, m in draws if m is not None]
    widths = [np.mean(margins) for _, margins in draws if margins is not None]
    return Result(
        float(np.mean(errors)),
        float(np.mean([abs(ratio(values) - ratio(truth)) for values, _ in draws])),
        float(np.mean([tau(values) for values, _ in draws])),
        float(np.mean(inside)) if inside else None,
        float(np.mean(widths)) if widths else None,
    )
