"""Plays recorded games: every estimator of Shapley values against the exact ones.

  python -m experiments.shapley --games=docs/results/shapley/digits.jsonl --seeds=1

For every estimator, by utility and number of attributes, over the games of these seeds:

  trainings     coalitions trained beside the local model
  value_error   root mean square over a game's values; geometric mean over games
  ratio_error   |R - exact R|, R the share of the first attribute, U(none) = 0
  tau           Kendall's, of the ranks
  covered       share of values within their 95 % intervals

--ridge=mnist=FOLDER plays those of `ridge`, of that data set and N = 16, beside them.
--rivals also plays shapiq's estimators (`pip install shapiq`) and two that were written
here from their papers; --results adds each game's errors to a file of kept rows, from
which docs/shapley.md is written, and plays only games that it lacks.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

from absl import flags

from fedsvp_jax.data import sources
from fedsvp_jax.report.text_table import aligned

from .. import command, flag_values, kept_rows, provenance
from . import arena, ridge, tables


def _games(
    values: flags.FlagValues, seeds: list[int]
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """The games, each with the commit that recorded it; those of `ridge` have none."""
    for file in values.games:
        for game in kept_rows.read(pathlib.Path(file)):
            if game["seed"] in seeds:
                yield game, game["provenance"]["commit"]
    for name, folder in flag_values.named_folders(values.ridge, "ridge").items():
        data = sources.load(name, str(folder))
        for seed in seeds:
            for game in ridge.games(data, seed):
                yield game, None


def main(_: list[str]) -> None:
    """Plays the games, prints the table and keeps the rows."""
    values = flags.FLAGS
    played: list[dict[str, Any]] = []
    file = pathlib.Path(values.results) if values.results else None
    kept = (
        [one for row in kept_rows.read(file) for one in row["played"]] if file else []
    )
    names = {one["game"] for one in kept}
    for game, commit in _games(values, sorted(map(int, values.seeds))):
        if tables.game_name(game) in names:
            continue
        done = []
        for utility in ("accuracy", "loss"):
            found = arena.play(game, utility, rivals=values.rivals)
            done += [tables.row(game, utility, *item) for item in found.items()]
        if file:
            row = {"games": commit, "provenance": provenance.stamp(None, 0)}
            kept_rows.add(file, row | {"played": done})
        played += done
    if not played:
        raise ValueError("games, ridge and seeds must name a game that is not kept yet")
    print(aligned(tables.summary(played)))


if __name__ == "__main__":
    flags.DEFINE_list("games", [], "Files of recorded games.")
    flags.DEFINE_list("ridge", [], "Data sets of ridge games, NAME=FOLDER.")
    flags.DEFINE_list("seeds", ["1", "2"], "Seeds whose games are played.")
    flags.DEFINE_bool("rivals", False, "Also play the estimators of others.")
    flags.DEFINE_string("results", None, "File of kept rows that the errors go to.")
    command.run(main, __doc__)
