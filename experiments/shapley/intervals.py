"""How often 95 % intervals hold the values: on shapiq's games and on recorded ones.

  python -m experiments.shapley.intervals

plays `additive` and `gp` on 300 draws of shapiq's SOUM (sums of 20 unanimity games of 8
players) and ten times on every recorded game that chose nothing, and keeps a row, from
which docs/results/shapley.md is written. It compares our exact values with shapiq's on
20 draws, for which it needs shapiq (`pip install shapiq`, Python 3.12).

    U(S) = sum over k of c_k [T_k within S],   psi_a = sum over T_k with a of c_k/|T_k|

No models are blended there; what stands for the blend is exact for none, one and all:

    B(S) = U(none) + sum over S of u_a + q_S (U(all) - U(none) - sum over all of u_a)

with u_a = U({a}) - U(none) and q_S = s (s - 1)/(n (n - 1)), the share of pairs in S.
"""

import importlib
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import shapley
from fedsvp_jax.algorithm.coalitions import coalition_rows

from .. import command, docs_blocks, kept_rows, provenance
from . import arena
from .games import HELD_OUT

PLAYERS, TERMS, DRAWS, REPEATS = 8, 20, 300, 10
FIRST = 300  # the first seed; draws 0 to 299 were seen before the interval was chosen
FOLDER = pathlib.Path("results/shapley")  # in docs
FILE = FOLDER / "intervals.jsonl"
PLAYED = {"gp": (1, 2, 3), "additive": (1, 2, 4)}  # times N trainings


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


def sums(draws: int) -> Iterator[arena.Entry]:
    """Draws of SOUM."""
    for seed in range(FIRST, FIRST + draws):
        worth = drawn(PLAYERS, TERMS, seed).worth
        yield arena.Entry(worth, near(worth), np.ones(PLAYERS, int), 0.0)


def recorded(docs_dir: pathlib.Path, utility: str) -> Iterator[arena.Entry]:
    """The recorded games that chose nothing, each as often as it is played."""
    for name in ("adult", "digits", "mnist"):
        for row in kept_rows.read(docs_dir / FOLDER / f"{name}.jsonl"):
            if (name, row["seed"]) in HELD_OUT:
                yield from [arena.entry(row, utility)] * REPEATS


def within(entries: Iterable[arena.Entry]) -> dict[str, float]:
    """By estimator, the share of values within their intervals."""
    inside: dict[str, list[float]] = {}
    for turn, game in enumerate(entries):
        number = len(game.counts)
        truth = game.worth @ shapley.weights(number)
        for name, times in PLAYED.items():
            for more in times:
                found = arena.ours(
                    name,
                    more * number // 2 * 2 if name == "additive" else more * number,
                    jnp.asarray(game.worth, jnp.float32),
                    jnp.asarray(game.blend, jnp.float32),
                    jnp.asarray(game.counts, jnp.int32),
                    game.resolution,
                    jax.random.key(turn),
                )
                error = abs(np.asarray(found.values) - truth)
                covered = error <= np.asarray(found.margins) + 1e-6
                inside.setdefault(f"{name}:{more}N", []).append(float(covered.mean()))
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
    docs_dir = docs_blocks.DOCS
    row = {
        "draws": DRAWS,
        "differences": differences(20),
        "within": {
            "SOUM": within(sums(DRAWS)),
            "recorded, accuracy": within(recorded(docs_dir, "accuracy")),
            "recorded, loss": within(recorded(docs_dir, "loss")),
        },
    }
    print(row)
    kept_rows.add(docs_dir / FILE, row | {"provenance": provenance.stamp(None, 0)})


def table(row: dict[str, Any]) -> list[dict[str, str]]:
    """A line per estimator of the kept row."""
    names = next(iter(row["within"].values()))
    return [
        {"estimator": f"`{name}`"}
        | {games: f"{held[name]:.1%}" for games, held in row["within"].items()}
        for name in names
    ]


def sentence(row: dict[str, Any]) -> str:
    """How far our exact values are from shapiq's."""
    return (
        f"On 20 draws of shapiq's SOUM our exact values differ from shapiq's by at "
        f"most {row['differences']['float64']:.0e}, as runs compute them in float32 by "
        f"{row['differences']['float32']:.0e} of the largest utility."
    )


if __name__ == "__main__":
    command.run(main, __doc__)
