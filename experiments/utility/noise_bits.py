"""What discrete noise costs in accuracy: Gaussian noise against b bits per number.

  python -m experiments.utility.noise_bits --data_dir=$FEDSVP_DATA/mnist

Digits, with the noise of the cohort's sum (dp_fedavg) and of each upload (gaussian,
update_clip), and MNIST with the noise of the sum. The runs of one seed have the same
split, first weights, cohorts and σ; only the sampler differs. A sweep that was stopped
goes on when the same command is given again, and rows that are kept are not computed
again. A grid that is refused is kept with its reason.
`experiments.utility.docs_page` makes the table of docs/results/utility.md from them.
"""

import json
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from absl import flags

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.report import labels, tables
from fedsvp_jax.report.text_table import markdown
from fedsvp_jax.run import sweep
from fedsvp_jax.run.files import write_json

from .. import command
from ..reproduce.paired_gap import paired_gap

_TASK: dict[str, Any] = {
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


class Comparison(NamedTuple):
    """Gaussian noise beside discrete noise of b bits."""

    dataset: str
    mechanism: str
    bits: tuple[int, ...]
    seeds: int

    def config(self, bits: int | None, data_dir: str | None) -> ExperimentConfig:
        """The settings of one sweep; bits None stands for Gaussian noise."""
        grid = {"noise_sampler": "discrete", "noise_bits": bits} if bits else {}
        told = _TASK | MECHANISMS[self.mechanism] | grid | {"dataset": self.dataset}
        if self.dataset != "digits":
            told["data_dir"] = data_dir
        return resolve(ExperimentConfig(mechanism=self.mechanism, **told))


COMPARISONS = (
    Comparison("digits", "dp_fedavg", (10, 12, 16), 5),
    Comparison("digits", "gaussian", (10, 12, 16), 5),
    Comparison("mnist", "dp_fedavg", (16,), 3),
)

RESULTS = pathlib.Path("docs/results/utility/noise_bits.json")
SWEEPS = pathlib.Path("runs/noise_bits")
Row = dict[str, Any]


def measure(data_dir: str | None, file: pathlib.Path, sweeps: pathlib.Path) -> None:
    """Runs the sweeps that are missing, in folders of `sweeps`, and keeps them."""
    rows: list[Row] = json.loads(file.read_text())["rows"] if file.exists() else []
    done = {(row["dataset"], row["mechanism"], row["bits"]) for row in rows}
    for one in COMPARISONS:
        for bits in (None, *one.bits):
            if (one.dataset, one.mechanism, bits) not in done:
                rows.append(_measured(one, bits, data_dir, sweeps))
                write_json(file, {"rows": rows})


def _measured(
    one: Comparison, bits: int | None, data_dir: str | None, sweeps: pathlib.Path
) -> Row:
    config = one.config(bits, data_dir)
    folder = sweeps / f"{one.dataset}-{one.mechanism}-{bits}"
    row: Row = {"dataset": one.dataset, "mechanism": one.mechanism, "bits": bits}
    row["refused"] = None
    seeds = tuple(range(one.seeds))
    plan = sweep.SweepPlan((one.mechanism,), (config.epsilon,), seeds)
    try:
        cells = sweep.sweep(config, plan, folder, resume=folder.exists(), progress=True)
        row["accuracies"] = [cell["final5_accuracy"] for cell in cells]
    except ValueError as refusal:
        if bits is None or "noise_bits must be" not in str(refusal):
            raise
        row["refused"] = str(refusal)
    return row


def table(results: dict[str, Any]) -> str:
    """One line per mechanism and bits; differences are paired by seed."""
    return markdown([_line(row, results["rows"]) for row in results["rows"]])


def _line(row: Row, rows: Sequence[Row]) -> dict[str, str]:
    (plain,) = (
        one["accuracies"]
        for one in rows
        if _task(one) == _task(row) and one["bits"] is None
    )
    shared = row["mechanism"] == "dp_fedavg"
    line = {
        "data": row["dataset"],
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
    line["accuracy %"] = labels.percent(*tables.mean_std(found), digits=1)
    line["seeds"] = str(gap.num_seeds)
    if row["bits"]:
        low, high = gap.t_interval
        line["minus Gaussian, points"] = f"{gap.mean:+.1f}"
        line["95 % interval"] = f"{low:+.1f} to {high:+.1f}"
    return line


def _task(row: Row) -> tuple[str, str]:
    return row["dataset"], row["mechanism"]


def main(_: list[str]) -> None:
    """Measures what is missing."""
    measure(flags.FLAGS.data_dir, RESULTS, SWEEPS)
    command.print_files([RESULTS])


if __name__ == "__main__":
    flags.DEFINE_string("data_dir", None, "Folder with the standard files of MNIST.")
    command.run(main, __doc__)
