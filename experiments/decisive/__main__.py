"""The registered experiment: is noise that follows Shapley values worth anything?

  python -m experiments.decisive --part=H1 --data_dir=$FEDSVP_DATA \\
      --output_dir=runs/decisive
  python -m experiments.decisive --norun

docs/appendix/preregistration.md says what is computed and what counts as yes and as
no. A cell is an arm and a seed. Its row is kept in docs/results/decisive/ARM.jsonl;
rows that are there are not computed again, so the command goes on where it was
stopped. At the end, and with --norun only this, docs/decisive.md is written from them.
"""

import pathlib
import time
from typing import Any

from absl import flags

from fedsvp_jax.data import sources
from fedsvp_jax.data.dataset import Dataset

from .. import command, docs_blocks, flag_values, kept_rows, provenance
from . import docs_page, guidance, registered, risk


def compute(
    arm: registered.Arm, seed: int, data_dir: pathlib.Path, output_dir: pathlib.Path
) -> dict[str, Any]:
    """The row of one cell."""
    if isinstance(arm.work, risk.Study):
        return risk.compute(arm.work, seed, data_dir)
    folder = output_dir / f"{arm.name}_{seed}"
    return guidance.compute(arm.work, seed, data_dir, folder)


def data_of(arm: registered.Arm, data_dir: pathlib.Path) -> Dataset:
    """The data set of an arm."""
    if isinstance(arm.work, risk.Study):
        return sources.load(arm.work.dataset, data_dir / arm.work.dataset)
    name = arm.work["dataset"]
    return sources.load(name, None if name == "digits" else data_dir / name)


def missing(
    results: pathlib.Path, parts: list[str], most_seeds: int | None
) -> list[tuple[int, registered.Arm]]:
    """The cells without a row, seed by seed, so that pairs are completed early.

    Raises:
      ValueError: a part is not registered.
    """
    flag_values.refuse_unknown("part", parts, registered.PARTS)
    wanted = []
    for place, arm in enumerate(registered.ARMS):
        done = {row["seed"] for row in docs_page.rows_of(results, arm.name)}
        most = arm.seeds if most_seeds is None else min(arm.seeds, most_seeds)
        if arm.part in parts:
            wanted += [(seed, place) for seed in range(most) if seed not in done]
    cells = [(seed, registered.ARMS[place]) for seed, place in sorted(wanted)]
    return sorted(cells, key=lambda cell: parts.index(cell[1].part))


def compute_missing(
    cells: list[tuple[int, registered.Arm]],
    results: pathlib.Path,
    data_dir: pathlib.Path,
    output_dir: pathlib.Path,
) -> None:
    """Computes cells and adds their rows to the files in `results`."""
    for seed, arm in cells:
        start = time.process_time()
        row = compute(arm, seed, data_dir, output_dir)
        cost = round(time.process_time() - start, 1)
        row = {"seed": seed, "cpu_s": cost} | row
        row["provenance"] = provenance.stamp(data_of(arm, data_dir), seed)
        kept_rows.add(results / f"{arm.name}.jsonl", row)
        print(f"{arm.name}, seed {seed}: {cost} CPU s", flush=True)


def measure(values: flags.FlagValues) -> None:
    """Computes the rows that are missing."""
    results = docs_blocks.DOCS / "results" / "decisive"
    command.start_jax(values)
    compute_missing(
        missing(results, values.part, values.seeds),
        results,
        pathlib.Path(values.data_dir),
        pathlib.Path(values.output_dir),
    )


if __name__ == "__main__":
    command.define_output(required=False)
    flags.DEFINE_list("part", list(registered.PARTS), "Which of H1, H2 and H3.")
    flags.DEFINE_integer(
        "seeds", None, "The most seeds of an arm. Default: all that are registered."
    )
    flags.DEFINE_string("data_dir", None, "Folder of the folders mnist and adult.")
    docs_blocks.run_study(
        measure, docs_page.rewrite, __doc__, needs=["data_dir", "output_dir"]
    )
