"""Sums of unanimity games, as shapiq's SOUM draws them: values that a formula gives.

  python -m experiments.shapley.unanimity

compares with shapiq (`pip install shapiq`), plays 300 draws of 8 players, and keeps the
row from which docs/shapley.md is written: the largest difference between our exact
values and shapiq's, and how many values lie within each estimator's 95 % intervals.

    U(S) = sum over k of c_k [T_k within S],   psi_a = sum over T_k with a of c_k/|T_k|

No models are blended here; what stands for the blend is exact for none, one and all:

    B(S) = U(none) + sum over S of u_a + q_S (U(all) - U(none) - sum over all of u_a)

with u_a = U({a}) - U(none) and q_S = s (s - 1)/(n (n - 1)), the share of pairs in S.
"""

import importlib
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import shapley
from fedsvp_jax.algorithm.coalitions import coalition_rows

from .. import command, docs_blocks, kept_rows, provenance
from . import arena

PLAYERS, TERMS, DRAWS = 8, 20, 300
FILE = pathlib.Path("results/shapley/unanimity.jsonl")  # in docs
PLAYED = {"gp": (1, 2, 3), "additive": (2, 4)}  # times N trainings


class Sum(NamedTuple):
    """A sum of unanimity games and its values."""

    worth: np.ndarray  # (2^N,) by bitmask
    values: np.ndarray  # (N,) by the formula


def drawn(number: int, terms: int, seed: int) -> Sum:
    """The game of shapiq's `SOUM(number, terms, random_state=seed)`."""
    draw = np.random.default_rng(seed)
    weights = draw.random(terms) * 2 - 1
    sizes = draw.integers(0, number, terms, endpoint=True)
    rows = coalition_rows(range(2**number), number)
    worth, values = np.zeros(len(rows)), np.zeros(number)
    for weight, size in zip(weights, sizes, strict=True):
        members = draw.choice(number, size, replace=False)
        worth += weight * rows[:, members].all(1)
        values[members] += weight / max(size, 1)
    return Sum(worth, values)


def near(worth: np.ndarray) -> np.ndarray:
    """(2^N,) B by bitmask."""
    number = len(worth).bit_length() - 1
    rows = coalition_rows(range(len(worth)), number)
    alone, size = worth[2 ** np.arange(number)] - worth[0], rows.sum(1)
    share = size * (size - 1) / (number * (number - 1))
    lacking = worth[-1] - worth[0] - alone.sum()
    return np.asarray(worth[0] + rows @ alone + share * lacking)


def within(draws: int) -> dict[str, float]:
    """By estimator, the share of values within their intervals over games of 8."""
    counts = jnp.ones((PLAYERS,), jnp.int32)
    inside: dict[str, list[float]] = {}
    for seed in range(draws):
        game = drawn(PLAYERS, TERMS, seed)
        worth, blend = (
            jnp.asarray(one, jnp.float32) for one in (game.worth, near(game.worth))
        )
        for name, times in PLAYED.items():
            for more in times:
                told = arena.ours(
                    name,
                    more * PLAYERS,
                    worth,
                    blend,
                    counts,
                    0.0,
                    jax.random.key(seed),
                )
                error = abs(np.asarray(told.values) - game.values)
                held = error <= np.asarray(told.margins) + 1e-6
                inside.setdefault(f"{name}:{more}N", []).append(float(held.mean()))
    return {name: round(float(np.mean(each)), 4) for name, each in inside.items()}


def differences(draws: int) -> dict[str, float]:
    """The largest between our exact values and those of shapiq's `ExactComputer`.

    In float64 by `shapley.weights`, and in float32 as runs compute them, there as a
    share of the largest utility.
    """
    exact: Any = importlib.import_module("shapiq.game_theory").ExactComputer
    ships: Any = importlib.import_module("shapiq_games.synthetic").SOUM
    rows = coalition_rows(range(2**PLAYERS), PLAYERS)
    double, single = [], []
    for seed in range(draws):
        game = ships(n=PLAYERS, n_basis_games=TERMS, random_state=seed)
        theirs = exact(n_players=PLAYERS, game=game)("SV", 1)
        values = np.asarray([theirs[(a,)] for a in range(PLAYERS)])
        worth = np.asarray(game(rows))
        double.append(abs(worth @ shapley.weights(PLAYERS) - values).max())
        mine = shapley.exact_shapley(jnp.asarray(worth, jnp.float32))
        single.append(abs(np.asarray(mine) - values).max() / abs(worth).max())
        formula = drawn(PLAYERS, TERMS, seed)
        np.testing.assert_allclose(formula.values, values, atol=1e-9)
        np.testing.assert_allclose(formula.worth, worth, atol=1e-9)
    return {"float64": float(max(double)), "float32": float(max(single))}


def main(_: list[str]) -> None:
    """Keeps the row."""
    row = {
        "players": PLAYERS,
        "terms": TERMS,
        "draws": DRAWS,
        "differences": differences(20),
        "within": within(DRAWS),
    }
    print(row)
    kept_rows.add(
        docs_blocks.DOCS / FILE, row | {"provenance": provenance.stamp(None, 0)}
    )


def sentence(row: dict[str, Any]) -> str:
    """What the page says of a row."""
    held = ", ".join(f"`{name}` {share:.1%}" for name, share in row["within"].items())
    return (
        f"On {row['draws']} draws of shapiq's SOUM, sums of {row['terms']} unanimity "
        f"games of {row['players']} players, our exact values differ from shapiq's by "
        f"at most {row['differences']['float64']:.0e}, as runs compute them in float32 "
        f"by {row['differences']['float32']:.0e} of the largest utility (20 draws). "
        f"Values within 95 % intervals: {held}."
    )


if __name__ == "__main__":
    command.run(main, __doc__)
