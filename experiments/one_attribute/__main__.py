"""Experiment B: what does hiding one attribute's records buy over features first?

  python -m experiments.one_attribute --data_dir=$FEDSVP_DATA/mnist \\
      --output_dir=runs/one_attribute

docs/one_attribute.md registers what is computed and what counts as yes and as no. A row
is one run, a line of docs/results/one_attribute/mnist.jsonl; an arm's runs of one size
of federation are one sweep, which goes on where it was stopped. `python -m
experiments.pages one_attribute` writes the page.
"""

import pathlib
from typing import Any

from absl import flags

from fedsvp_jax.run.sweep import SweepPlan, sweep

from .. import command, docs_blocks, kept_rows, provenance
from .docs_page import FILE
from .registered import ARMS, CLIENTS, EPSILON, SEEDS, config


def _row(arm: str, clients: int, cell: dict[str, Any]) -> dict[str, Any]:
    """What is kept of one cell of a sweep."""
    numbers = ("final5_accuracy", "final5_private_accuracy", "params_sha256")
    claim: dict[str, Any] = next(
        (
            one
            for one in cell["guarantees"]
            if one["adversary"] == "server" and one["method"] == "pld"
        ),
        {},
    )
    said = ("epsilon", "delta", "status", "relation", "adversary")
    return {
        "arm": arm,
        "clients": clients,
        "seed": cell["seed"],
        **{name: cell[name] for name in numbers},
        **{name: claim.get(name) for name in said},
    }


def main(_: list[str]) -> None:
    """Computes the rows that are missing, one arm of one federation after the other."""
    values = flags.FLAGS
    command.start_jax(values)
    file = docs_blocks.DOCS / FILE
    done = {(row["arm"], row["clients"]) for row in kept_rows.read(file)}
    given = {"data_dir": values.data_dir, "features_dir": values.features_dir}
    for clients in CLIENTS:
        for arm in ARMS:
            if (arm, clients) in done:
                continue
            base = config(arm, clients, SEEDS[0], **given)
            totals = () if base.total_epsilon is None else (EPSILON,)
            plan = SweepPlan((base.mechanism,), (1.0,), SEEDS, total_epsilons=totals)
            name = f"{arm.replace(' ', '_')}_{clients}"
            folder = pathlib.Path(values.output_dir) / name
            cells = sweep(base, plan, folder, resume=True, progress=True)
            stamp = provenance.stamp_of_run(base)
            for cell in cells:
                row = _row(arm, clients, cell)
                kept_rows.add(
                    file, row | {"provenance": stamp | {"seed": cell["seed"]}}
                )
            print(f"{arm}, {clients} clients: {len(cells)} rows", flush=True)


if __name__ == "__main__":
    command.define_output()
    flags.DEFINE_string("data_dir", None, "Folder of the four MNIST files.")
    flags.DEFINE_string("features_dir", None, "As experiments.train has it.")
    command.run(main, __doc__)
