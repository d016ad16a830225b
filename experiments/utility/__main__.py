"""Computes the missing rows of docs/results/utility.md, accuracy at a proved ε.

  python -m experiments.utility --setup=mnist_mlp --data_dir=$FEDSVP_DATA/mnist \\
      --output_dir=runs/utility

A route (experiments/utility/routes.py) is a way to train with a proved ε, or a row that
it is compared with. Every seed is a run of its own, whose folder lies in --output_dir,
and a row of docs/results/utility/SETUP.jsonl. Rows that are there are not computed
again, so the command goes on where it was stopped. docs/results/utility.md shows the
rows (`python -m experiments.utility.docs_page`).
"""

import pathlib

from absl import flags

from .. import command
from .routes import ROUTES
from .rows import compute

command.define_output()
flags.DEFINE_enum(
    "setup", None, sorted({route.setup for route in ROUTES}), "Which.", required=True
)
flags.DEFINE_integer("most_seeds", 5, "Seeds of a route at most.", lower_bound=1)
flags.DEFINE_string("data_dir", None, "Folder with the standard files of the data set.")
flags.DEFINE_string(
    "results_dir", "docs/results/utility", "Folder of the rows that are kept."
)


def main(_: list[str]) -> None:
    """Computes the rows that are missing."""
    values = flags.FLAGS
    command.start_jax(values)
    routes = [route for route in ROUTES if route.setup == values.setup]
    compute(
        routes,
        pathlib.Path(values.results_dir) / f"{values.setup}.jsonl",
        pathlib.Path(values.output_dir),
        data_dir=values.data_dir,
        most_seeds=values.most_seeds,
    )


if __name__ == "__main__":
    command.run(main, __doc__)
