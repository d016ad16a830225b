"""Tables of the arena, from its rows."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from fedsvp_jax import shapley, student

from . import ridge
from .arena import Result, entrants
from .games import HELD_OUT

Played = dict[str, Any]  # one estimator on one game


def game_name(game: dict[str, Any]) -> str:
    """`digits 1 0 equal 5`: data set, seed, round, kind, players."""
    parts = ("dataset", "seed", "round", "kind", "players")
    return " ".join(str(game[part]) for part in parts)


def row(game: dict[str, Any], utility: str, name: str, result: Result) -> Played:
    """What is kept of one estimator on one game."""
    told = {
        key: None if value is None else float(f"{value:.4g}")
        for key, value in result._asdict().items()
    }
    return {"game": game_name(game), "utility": utility, "estimator": name} | told


def held_out(played: Sequence[Played]) -> list[Played]:
    """The rows of games that chose nothing."""
    return [
        one
        for one in played
        if (one["game"].split()[0], int(one["game"].split()[1]))
        in HELD_OUT | ridge.HELD_OUT
    ]


def _players(one: Played) -> int:
    return int(one["game"].split()[-1])


def _error(rows: Sequence[Played]) -> float:
    """Geometric mean over games; an error of 0 counts as 1e-4."""
    return math.exp(
        statistics.fmean(math.log(max(one["value_error"], 1e-4)) for one in rows)
    )


def summary(played: Sequence[Played]) -> list[dict[str, str]]:
    """A line per utility, number of attributes and estimator."""
    lines = []
    for utility in ("accuracy", "loss"):
        for number in sorted({_players(one) for one in played}):
            for name, (asked, _) in entrants(number).items():
                rows = [
                    one
                    for one in played
                    if (one["utility"], _players(one), one["estimator"])
                    == (utility, number, name)
                ]
                if not rows:
                    continue
                lines.append(
                    {
                        "utility": utility,
                        "N": str(number),
                        "games": str(len(rows)),
                        "estimator": f"`{name}`" if ":" in name else name,
                        "trainings": str(asked),
                        "error of ψ": f"{_error(rows):.4f}",
                        "of R": f"{_mean(rows, 'ratio_error'):.3f}",
                        "τ": f"{_mean(rows, 'tau'):.2f}",
                    }
                )
    return lines


def _set(one: Played) -> str:
    """Which games are compared together; the first were looked at before the others."""
    name, seed, *_, number = one["game"].split()
    if int(number) > shapley.MAX_EXACT:
        return f"N = {number}"
    first = seed == "1" and name in ("digits", "adult") and number in ("5", "8")
    return "N ≤ 10, first" if first else "N ≤ 10, later"


def compared(played: Sequence[Played], pairs: Sequence[tuple[str, str]]) -> list[Any]:
    """Paired tests: the ratio of two estimators' errors of ψ on the same games.

    A game's two utilities are one observation, their mean log ratio; so many games of
    one client, round and kind differ in the client. The interval is Student's t on the
    mean log ratio over games: it `wins` where the interval lies below 1, `loses` above.
    """
    sets = sorted({_set(one) for one in played})
    lines = []
    for mine, other in pairs:
        line = {"estimator": f"`{mine}`"}
        line["against"] = f"`{other}`" if ":" in other else other
        for name in sets:
            games = [one for one in played if _set(one) == name]
            logs = _log_ratios(games, mine, other)
            told = f"{name}, {len({one['game'] for one in games})} games"
            line[told] = _ratio(logs) if len(logs) > 1 else "–"
        lines.append(line)
    return lines


def _log_ratios(games: Sequence[Played], mine: str, other: str) -> list[float]:
    ratios: dict[str, list[float]] = {}
    for one in games:
        if one["estimator"] in (mine, other):
            sign = 1 if one["estimator"] == mine else -1
            log = math.log(max(one["value_error"], 1e-4))
            ratios.setdefault(one["game"], []).append(sign * log)
    return [sum(each) / 2 for each in ratios.values() if len(each) == 4]


def _ratio(logs: Sequence[float]) -> str:
    low, high = map(math.exp, student.interval(logs))
    finding = " wins" if high < 1 else " loses" if low > 1 else ""
    mean = math.exp(statistics.fmean(logs))
    return f"{mean:.2f} ({low:.2f} to {high:.2f}){finding}"


def _mean(rows: Sequence[Played], name: str) -> float:
    return statistics.fmean(one[name] for one in rows)
