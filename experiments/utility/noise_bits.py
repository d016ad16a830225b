"""What discrete noise costs in accuracy: Gaussian noise against b bits per number.

  python -m experiments.utility.noise_bits

Digits, with the noise of the cohort's sum (dp_fedavg) and of each upload (gaussian,
update_clip). The runs of one seed have the same split, first weights, cohorts and σ;
only the sampler differs. A sweep that was stopped goes on when the same command is
given again. The accuracies are written to --bits_results; a grid that is refused is
kept with its reason. `experiments.utility.docs_page` makes the table of docs/utility.md
from them.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

from absl import flags

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.report.text_table import markdown
from fedsvp_jax.run import sweep
from fedsvp_jax.run.folder import write_json

from .. import command
from ..reproduce.paired_gap import paired_gap

flags.DEFINE_string("bits_output_dir", "runs/noise_bits", "Folder of the sweeps.")
flags.DEFINE_string(
    "bits_results",
    "docs/results/utility/noise_bits.json",
    "File that the accuracies go to.",
)
flags.DEFINE_integer("bits_seeds", 5, "Seeds, from 0 on.", lower_bound=2)

BITS = (10, 12, 16)
_TASK: dict[str, Any] = {
    "dataset": "digits",
    "model": "mlp",
    "num_rounds": 40,
    "cohort_size": 10,
    "l2_norm_clip": 1.0,
    "delta": 1e-5,
}
# σ on the average of ten clients is 0.01 C in both.
MECHANISMS: dict[str, dict[str, Any]] = {
    "dp_fedavg": {"noise_multiplier": 0.1},
    "gaussian": {"noise_std": 0.03, "sensitivity": "update_clip"},
}

Row = dict[str, Any]


def config_of(mechanism: str, bits: int | None) -> ExperimentConfig:
    """The settings of one sweep; bits None stands for Gaussian noise."""
    grid = {"noise_sampler": "discrete", "noise_bits": bits} if bits else {}
    told = _TASK | MECHANISMS[mechanism] | grid
    return resolve(ExperimentConfig(mechanism=mechanism, **told))


def measure(values: flags.FlagValues) -> None:
    """Runs the sweeps and writes the accuracy of every seed."""
    seeds = tuple(range(values.bits_seeds))
    rows: list[Row] = []
    for mechanism in MECHANISMS:
        for bits in (None, *BITS):
            config = config_of(mechanism, bits)
            folder = pathlib.Path(values.bits_output_dir) / f"{mechanism}-{bits}"
            row: Row = {"mechanism": mechanism, "bits": bits, "refused": None}
            plan = sweep.SweepPlan((mechanism,), (config.epsilon,), seeds)
            try:
                cells = sweep.sweep(
                    config, plan, folder, resume=folder.exists(), progress=True
                )
                row["accuracies"] = [cell["final5_accuracy"] for cell in cells]
            except ValueError as refusal:
                if bits is None or "noise_bits must be" not in str(refusal):
                    raise
                row["refused"] = str(refusal)
            rows.append(row)
            write_json(pathlib.Path(values.bits_results), {"rows": rows})


def table(results: dict[str, Any]) -> str:
    """One line per mechanism and bits; differences are paired by seed."""
    return markdown([_line(row, results["rows"]) for row in results["rows"]])


def _line(row: Row, rows: Sequence[Row]) -> dict[str, str]:
    (plain,) = (
        one["accuracies"]
        for one in rows
        if one["mechanism"] == row["mechanism"] and one["bits"] is None
    )
    shared = row["mechanism"] == "dp_fedavg"
    line = {
        "noise is on": "the sum (dp_fedavg)" if shared else "each upload (gaussian)",
        "noise": f"discrete, {row['bits']} bits" if row["bits"] else "Gaussian",
        "accuracy %": "",
        "minus Gaussian, points": "–",
        "95 % interval": "–",
        "seeds": "–",
    }
    if row["refused"]:
        least = row["refused"].split(" for ")[0].removeprefix("noise_bits must be ")
        line["accuracy %"] = f"refused: needs {least} bits"
        return line
    found = row["accuracies"]
    gap = paired_gap(*([100 * one for one in which] for which in (found, plain)))
    line["accuracy %"] = f"{100 * sum(found) / len(found):.1f} ± {gap.std_a:.1f}"
    line["seeds"] = str(gap.num_seeds)
    if row["bits"]:
        low, high = gap.t_interval
        line["minus Gaussian, points"] = f"{gap.mean:+.1f}"
        line["95 % interval"] = f"{low:+.1f} to {high:+.1f}"
    return line


def main(_: list[str]) -> None:
    """Measures what is missing."""
    values = flags.FLAGS
    measure(values)
    command.print_files([values.bits_results])


if __name__ == "__main__":
    command.run(main, __doc__)
