"""Games of 32 attributes, whose exact values nobody knows, against many random orders.

  python -m experiments.shapley.many --ridge=digits=FOLDER,mnist=FOLDER --results=FILE

The games are those of `ridge` with N = 32. What is taken for exact is the mean gain
over ORDERS random orders, each both ways; its own error stands on the row, and is small
beside an estimator's. Ours run as in a client: they train the ridge regressions that
they ask for, blend their outputs, and correct the blend. shapiq is needed (`pip install
shapiq`, Python 3.12).
"""

import functools
import math
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax.algorithm import coalitions, estimators
from fedsvp_jax.data import sources
from fedsvp_jax.structs import Array, Weights

from .. import command, flag_values, kept_rows, provenance
from . import arena, ridge, tables
from .rivals import RIVALS

PLAYERS, ORDERS, CHUNK, TIMES = 32, 4000, 64, (2, 4)
OURS = {"equal:0": 0, "additive:0": 0, "gp:N": 1, "gp:2N": 2, "gp:3N": 3}
OURS |= {"additive:N": 1, "additive:3N": 3}


class Solved(NamedTuple):
    """Stands for `evaluation.Validation`: a model is its coalition, (N,) bool."""

    game: Any  # ridge.Part, of arrays of JAX
    kind: str

    @property
    def resolution(self) -> float:
        """The least step of a utility."""
        return 1 / ridge.TESTED if self.kind == "accuracy" else 0.0

    def logits(self, params: Array, stats: Any) -> Array:
        """(v, c) outputs of the coalition's regression."""
        game, row = self.game, params.astype(jnp.float32)
        left, right = (jnp.tensordot(row, p, 1) for p in (game.squares, game.products))
        solved = jax.scipy.linalg.solve(
            left + jnp.eye(left.shape[0]), right, assume_a="pos"
        )
        return jnp.matmul(game.tested, solved, precision="highest")

    def logits_shape(self, params: Array, stats: Any) -> tuple[int, ...]:
        """(v, c)."""
        return (*self.game.labels.shape, self.game.products.shape[-1])

    def utility_of(self, logits: Array) -> Array:
        """() float32."""
        if self.kind == "accuracy":
            return jnp.mean((jnp.argmax(logits, -1) == self.game.labels) * 1.0)
        wanted = jnp.eye(logits.shape[-1])[self.game.labels]
        return -jnp.mean(jnp.sum(jnp.square(logits - wanted), -1))

    def utility(self, params: Array, stats: Any) -> Array:
        """() float32."""
        return self.utility_of(self.logits(params, stats))


class Asked(NamedTuple):
    """Stands for `rivals.Known` where no table of utilities is possible."""

    players: int
    worth: dict[int, float]  # 0 and -1: of none and all
    asked: Callable[[np.ndarray], np.ndarray]


@functools.partial(jax.jit, static_argnames=("name", "number", "kind"))
def ours(name: str, number: int, kind: str, parts: Any, key: Array) -> Any:
    """An estimator of `--shapley` on the arrays of a game."""
    game = ridge.Part("", *parts)
    validation = Solved(game, kind)
    whole = coalitions.planned_coalitions(name, PLAYERS)
    played = estimators.Game(
        num_attributes=PLAYERS,
        groups=(coalitions.Group(1, tuple(whole)),),
        batch_size=1,
        start=Weights(jnp.zeros(PLAYERS, bool), {}),
        train=lambda row, _: Weights(row, {}),
        validation=validation,  # type: ignore[arg-type]
        counts=jnp.asarray(game.counts),
        empty=validation.utility(jnp.zeros(PLAYERS, bool), {}),
    )
    return estimators.ESTIMATORS[name](played, key, number)[1]


def utilities(game: ridge.Part, kind: str, rows: np.ndarray) -> np.ndarray:
    """(m,) of the coalitions (m, N)."""
    rows = np.atleast_2d(np.asarray(rows)).astype(float)
    at = ("accuracy", "loss").index(kind)
    parts = np.array_split(rows, math.ceil(len(rows) / 2048))
    return np.concatenate(
        [ridge.worths(game.outputs(part), game.labels)[at] for part in parts]
    )


def reference(game: ridge.Part, seed: int) -> dict[str, tuple[np.ndarray, float]]:
    """By utility, the mean gains over random orders both ways, and their error."""
    draw = np.random.default_rng(seed)
    steps = np.arange(PLAYERS + 1)[:, None]
    gains: dict[str, list[np.ndarray]] = {"accuracy": [], "loss": []}
    for _ in range(ORDERS // CHUNK):
        ranks = np.argsort(draw.random((CHUNK, PLAYERS)), axis=1)
        rows = np.concatenate([ranks, PLAYERS - 1 - ranks])[:, None] < steps
        outputs = game.outputs(rows.reshape(-1, PLAYERS) * 1.0)
        both = ridge.worths(outputs, game.labels)
        for kind, worth in zip(gains, both, strict=True):
            steps_of = np.diff(worth.reshape(2 * CHUNK, -1), axis=1)
            places = np.concatenate([ranks, PLAYERS - 1 - ranks])
            each = np.take_along_axis(steps_of, places, 1).reshape(2, CHUNK, -1)
            gains[kind] += list(each.mean(0))
    return {
        kind: (
            np.mean(each, 0),
            float(np.sqrt(np.mean(np.var(each, 0, ddof=1) / len(each)))),
        )
        for kind, each in gains.items()
    }


def play(
    game: ridge.Part, kind: str, truth: np.ndarray, *, rivals: bool
) -> dict[str, arena.Result]:
    """Every entrant on one game and utility."""
    parts = tuple(
        jnp.asarray(leaf, jnp.int32 if leaf.dtype.kind == "i" else jnp.float32)
        for leaf in game[1:]
    )
    ends = utilities(game, kind, np.stack([np.zeros(PLAYERS), np.ones(PLAYERS)]))
    asked = Asked(
        PLAYERS,
        {0: ends[0], -1: ends[1]},
        lambda rows: utilities(game, kind, rows),
    )
    found = {}
    draws: list[Any]
    for name, times in OURS.items():
        estimator, _, drawn = name.partition(":")
        draws = []
        for seed in range(1 if drawn == "0" else arena.REPEATS):
            if estimator == "equal":
                draws.append((np.full(PLAYERS, (ends[1] - ends[0]) / PLAYERS), None))
                continue
            told = ours(estimator, times * PLAYERS, kind, parts, jax.random.key(seed))
            margins = None if drawn == "0" else np.asarray(told.margins, float)
            draws.append((np.asarray(told.values, float), margins))
        found[name] = arena._result(truth, draws, ends[0])
    for name, rival in RIVALS.items() if rivals else ():
        if name.startswith("ShaplEIG"):  # it holds the covariance of all coalitions
            continue
        for times in TIMES:
            draws = []
            for seed in range(1 if "SPEX" in name else arena.REPEATS):
                values = rival(asked, times * PLAYERS, seed)  # type: ignore[arg-type]
                if values is not None:
                    draws.append((values, None))
            if draws:
                found[f"{name}, {times}N"] = arena._result(truth, draws, ends[0])
    return found


def main(_: list[str]) -> None:
    """Plays the games, and keeps their rows."""
    values = flags.FLAGS
    file = pathlib.Path(values.results)
    kept = {row["played"][0]["game"] for row in kept_rows.read(file)}
    for name, folder in flag_values.named_folders(values.ridge, "ridge").items():
        data = sources.load(name, str(folder))
        for seed in map(int, values.seeds):
            for game in ridge.parts(data, seed, PLAYERS):
                title: dict[str, Any] = {
                    "dataset": f"{data.name}-ridge",
                    "seed": seed,
                    "round": 0,
                    "kind": game.kind,
                    "players": PLAYERS,
                }
                if tables.game_name(title) in kept:
                    continue
                exact = reference(game, seed)
                done = []
                for utility, (truth, _error) in exact.items():
                    found = play(game, utility, truth, rivals=values.rivals)
                    done += [
                        tables.row(title, utility, *item) for item in found.items()
                    ]
                row: dict[str, Any] = {
                    "games": None,
                    "orders": ORDERS,
                    "errors": {each: told for each, (_truth, told) in exact.items()},
                    "provenance": provenance.stamp(None, 0),
                }
                kept_rows.add(file, row | {"played": done})
                print(tables.game_name(title), row["errors"])


if __name__ == "__main__":
    flags.DEFINE_list("ridge", [], "Data sets, NAME=FOLDER with commas between.")
    flags.DEFINE_list("seeds", ["1", "2"], "Seeds whose games are played.")
    flags.DEFINE_bool("rivals", True, "Also play the estimators of others.")
    flags.DEFINE_string("results", None, "File of kept rows.", required=True)
    command.run(main, __doc__)
