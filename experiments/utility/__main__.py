"""Accuracy at a proved ε: computes the rows of docs/utility.md that are missing.

  python -m experiments.utility --setup=mnist_mlp --data_dir=$FEDSVP_DATA/mnist \\
      --output_dir=runs/utility

A route (experiments/utility/routes.py) is a way to train with a proved ε, or a row that
it is compared with. Every seed is a run of its own, whose folder lies in --output_dir,
and a row of docs/results/utility/SETUP.jsonl. Rows that are there are not computed
again, so the command goes on where it was stopped. docs/utility.md shows the rows:
`python -m experiments.utility.docs_page`.
"""

import json
import pathlib
from typing import Any

from absl import flags

from fedsvp_jax import run

from .. import command
from .routes import ROUTES, Route

command.define_output()
flags.DEFINE_enum(
    "setup", None, sorted({route.setup for route in ROUTES}), "Which.", required=True
)
flags.DEFINE_integer("most_seeds", 5, "Seeds of a route at most.", lower_bound=1)
flags.DEFINE_string("data_dir", None, "Folder with the standard files of the data set.")
flags.DEFINE_string(
    "results_dir", "docs/results/utility", "Folder of the rows that are kept."
)


def row_of(route: Route, seed: int, summary: dict[str, Any]) -> dict[str, Any]:
    """A row of the results: the mean of the last five evaluations, and the claim."""
    promised = [
        one for one in summary["guarantees"] if one["method"].startswith("promise")
    ]
    claim = promised[0] if promised else {}
    return {
        "route": route.name,
        "total_epsilon": route.settings.get("total_epsilon"),
        "seed": seed,
        "accuracy": summary["final5_accuracy"],
        "private_accuracy": summary["final5_private_accuracy"],
        "worst_tenth_accuracy": summary["final5_worst_tenth_accuracy"],
        "spent_pld": summary["epsilon_spent"]["pld"],
        "delta": summary["target_delta"],
        "adversary": claim.get("adversary"),
        "relation": claim.get("relation"),
        "status": claim.get("status"),
        "rounds": summary["rounds"],
    }


def main(_: list[str]) -> None:
    """Computes the rows that are missing, seed by seed."""
    values = flags.FLAGS
    command.start_jax(values)
    file = pathlib.Path(values.results_dir) / f"{values.setup}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    text = file.read_text() if file.exists() else ""
    rows = map(json.loads, text.splitlines())
    done = {(row["route"], row["total_epsilon"], row["seed"]) for row in rows}
    routes = [route for route in ROUTES if route.setup == values.setup]
    for seed in range(values.most_seeds):
        for number, route in enumerate(routes):
            total = route.settings.get("total_epsilon")
            if seed >= route.seeds or (route.name, total, seed) in done:
                continue
            folder = pathlib.Path(values.output_dir) / f"{values.setup}_{number}_{seed}"
            config = route.config(seed, values.data_dir)
            row = row_of(route, seed, run.train(config, folder, resume=True))
            with file.open("a") as kept:
                kept.write(json.dumps(row) + "\n")
            print(f"{route.name}, seed {seed}: {row['accuracy']:.4f}", flush=True)


if __name__ == "__main__":
    command.run(main, __doc__)
