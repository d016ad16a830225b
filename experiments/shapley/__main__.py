"""Plays recorded games: every estimator of Shapley values against the exact ones.

  python -m experiments.shapley --games=docs/results/shapley/digits.jsonl --seeds=1

For every estimator, by utility and number of attributes, over the games of these seeds:

  trainings     coalitions trained beside the local model
  value_error   root mean square over a game's values; geometric mean over games
  ratio_error   |R - exact R|, R the share of the first attribute, U(none) = 0
  tau           Kendall's, of the ranks
  covered       share of values within their 95 % intervals

--rivals also plays shapiq's estimators (`pip install shapiq`) and two that were written
here from their papers; --results adds each game's errors to a file of kept rows, from
which docs/shapley.md is written. `python -m experiments.shapley.record` makes games.
"""

import pathlib
from typing import Any

from absl import flags

from fedsvp_jax.report.text_table import aligned

from .. import command, kept_rows, provenance
from . import arena, tables


def main(_: list[str]) -> None:
    """Plays the games, prints the table and keeps the rows."""
    values = flags.FLAGS
    seeds = {int(seed) for seed in values.seeds}
    played: list[dict[str, Any]] = []
    for file in values.games:
        for game in kept_rows.read(pathlib.Path(file)):
            if game["seed"] not in seeds:
                continue
            stamp = game.pop("provenance")
            for utility in ("accuracy", "loss"):
                found = arena.play(game, utility, rivals=values.rivals)
                for name, result in found.items():
                    played.append(tables.row(game, utility, name, result))
            if values.results:
                row = {
                    "games": stamp["commit"],
                    "provenance": provenance.stamp(None, 0),
                }
                done = [one for one in played if one["game"] == tables.game_name(game)]
                kept_rows.add(pathlib.Path(values.results), row | {"played": done})
    if not played:
        raise ValueError("games and seeds must name a recorded game, got none")
    print(aligned(tables.summary(played)))


if __name__ == "__main__":
    flags.DEFINE_list("games", None, "Files of recorded games.", required=True)
    flags.DEFINE_list("seeds", ["1", "2"], "Seeds whose games are played.")
    flags.DEFINE_bool("rivals", False, "Also play the estimators of others.")
    flags.DEFINE_string("results", None, "File of kept rows that the errors go to.")
    command.run(main, __doc__)
