"""How many federations the registered verdicts need; run before the first row.

  python -m experiments.data_value.power --data_dir=$FEDSVP_DATA --output_dir=runs/power

Computes --federations pilots of each data set, with seeds that are not registered, and
prints for every hypothesis and ledger the standard deviation of a gain and the number
of federations that shows a gain of WORTH (or its absence, if there is none) with the
chance .8, at Holm's strictest level. The standard deviation is the upper end of its
one-sided 80 % interval, since pilots are few.
"""

import pathlib

import numpy as np
from absl import flags

from fedsvp_jax.data import sources
from fedsvp_jax.report.text_table import markdown

from .. import command, kept_rows
from . import analysis, cell
from .registered import DATASETS, FIRST_PILOT, LEDGERS, QUESTIONS, WORTH

LEVEL, POWER, CONFIDENCE = 0.05, 0.8, 0.8


def upper_std(values: np.ndarray) -> float:
    """The upper end of the one-sided interval of a standard deviation."""
    import scipy.stats

    degrees = len(values) - 1
    low = scipy.stats.chi2.ppf(1 - CONFIDENCE, degrees)
    return float(np.std(values, ddof=1) * np.sqrt(degrees / low))


def federations_needed(std: float) -> int:
    """((z_level + z_power) std/WORTH)^2, rounded up."""
    import scipy.stats

    level = LEVEL / len(QUESTIONS)
    factor = scipy.stats.norm.isf(level) + scipy.stats.norm.ppf(POWER)
    return int(np.ceil((factor * std / WORTH) ** 2))


def table(rows: analysis.Rows) -> str:
    """One line per data set and hypothesis, one column per ledger."""
    lines = []
    for one, name in QUESTIONS:
        line = {"data set": name, "hypothesis": one.name}
        for ledger in LEDGERS:
            parts = analysis.gains(rows[name], one, ledger)
            most = max(upper_std(part) for part in parts)
            line[ledger] = f"{most:.2f}: {federations_needed(most)}"
        lines.append(line)
    return markdown(lines)


def main(_: list[str]) -> None:
    """Computes the pilots that are missing and prints the table."""
    values = flags.FLAGS
    command.start_jax(values)
    rows: analysis.Rows = {}
    for name in DATASETS:
        file = pathlib.Path(values.output_dir) / f"{name}.jsonl"
        data = sources.load(name, pathlib.Path(values.data_dir) / name)
        done = {row["seed"] for row in kept_rows.read(file)}
        for seed in range(FIRST_PILOT, FIRST_PILOT + values.federations):
            if seed not in done:
                kept_rows.add(file, {"seed": seed, **cell.compute(data, seed)})
        rows[name] = kept_rows.read(file)
        print(f"{name}: area without noise {analysis.area(rows[name]):.3f}", flush=True)
    print(table(rows))


def define_flags() -> None:
    """The flags, not at import: other commands have flags of the same names."""
    command.define_output()
    flags.DEFINE_string("data_dir", None, "Folder of the folders mnist and adult.")
    flags.DEFINE_integer("federations", 3, "Pilots of each data set.", lower_bound=2)
    flags.mark_flag_as_required("data_dir")


if __name__ == "__main__":
    define_flags()
    command.run(main, __doc__)
