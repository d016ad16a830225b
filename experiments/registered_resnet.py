"""ResNet-18 on CIFAR-10, as registered: keeps the rows of its runs, and judges them.

  python -m experiments.registered_resnet                     writes the page's block
  python -m experiments.registered_resnet RUN [RUN …]         keeps runs, then writes it

RUN is the --output_dir of a run of docs/appendix/registered_resnet.md, at its end. Its
row goes to docs/results/resnet.jsonl.
"""

import json
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import scipy.stats

from fedsvp_jax.data import sources
from fedsvp_jax.report.text_table import markdown
from fedsvp_jax.run import records

from . import command, docs_blocks, kept_rows, provenance

# Of the registration, and of the code of its runs.
COMMIT = "c1a7beb386bfce8131de95e5b49823940d962770"
FLAGS = "resnet.flags"  # in docs/results
ROUNDS = 100
TEST_IMAGES = 2000
GATE = 0.5  # FedAvg's accuracy, below which no verdict is drawn
WITHIN = 0.1  # of the published share of FedAvg: as published
CHANCE = 0.15  # the most that each of the last three evaluations may be
PUBLISHED = {"none": 0.8433, "nbafl": 0.4867, "fedsva": 0.7598}  # FedSVA, Table 1
NAMES = {"none": "FedAvg", "nbafl": "NbAFL", "fedsva": "FedSVA"}


def registered() -> dict[str, str]:
    """The registered settings, as text by name."""
    lines = (docs_blocks.DOCS / "results" / FLAGS).read_text().split()
    named = (line.removeprefix("--").partition("=") for line in lines if "=" in line)
    return {name: value for name, _, value in named}


def row(run: pathlib.Path) -> dict[str, Any]:
    """The evaluations of a run, and where it comes from.

    Raises:
      ValueError: the folder holds no run, or one of other settings or not at its end.
    """
    if not (run / "config.json").is_file():
        raise ValueError(f"{run} holds no run")
    config = json.loads((run / "config.json").read_text())
    for name, value in registered().items():
        if name in config and str(config[name]).lower() not in (value, f"{value}.0"):
            raise ValueError(
                f"{run} has {name} = {config[name]}, registered is {value}"
            )
    if config["mechanism"] not in NAMES:
        raise ValueError(f"{run} is of {config['mechanism']}, which is not registered")
    rounds = kept_rows.read(run / "metrics.jsonl")
    diverged = any(records.diverged(one) for one in rounds)
    if len(rounds) < ROUNDS and not diverged:
        raise ValueError(f"{run} has {len(rounds)} of {ROUNDS} rounds")
    data = sources.load(config["dataset"], config["data_dir"])
    return {
        "mechanism": config["mechanism"],
        "diverged": diverged,
        "rounds": len(rounds),
        "evaluations": [
            [one["round"], one["test_accuracy"]]
            for one in rounds
            if one["test_accuracy"] is not None
        ],
        "provenance": provenance.stamp(data, config["seed"])
        | {name: config[name] for name in ("versions", "xla_flags")}
        | {
            "command": f"python -m experiments.frozen {COMMIT[:7]} -- python -m "
            f"experiments.train --flagfile=docs/results/{FLAGS} "
            f"--mechanism={config['mechanism']}",
            "commit": COMMIT,
            "uncommitted": [],  # in that commit's worktree
        },
    }


def accuracy(row: dict[str, Any]) -> float:
    """The mean of the last three evaluations; nan where there is none."""
    last = [value for _, value in row["evaluations"][-3:]]
    return math.fsum(last) / len(last) if last else math.nan


def verdict(row: dict[str, Any], fedavg: dict[str, Any]) -> str:
    """By the registered rules."""
    if not accuracy(fedavg) >= GATE:
        return "none: FedAvg is below the gate"
    if row["diverged"] or all(one <= CHANCE for _, one in row["evaluations"][-3:]):
        return "chance"
    share = accuracy(row) / accuracy(fedavg)
    published = PUBLISHED[row["mechanism"]] / PUBLISHED["none"]
    return "as published" if abs(share - published) <= WITHIN else "in between"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The block of the page: one line a run, FedAvg first."""
    by_name = {one["mechanism"]: one for one in rows}
    if "none" not in by_name:
        return "FedAvg is not at its end."
    fedavg = by_name["none"]
    lines = []
    for name in (name for name in NAMES if name in by_name):
        one, value = by_name[name], accuracy(by_name[name])
        ends = "diverged"
        if not one["diverged"]:
            right = scipy.stats.binomtest(round(value * TEST_IMAGES), TEST_IMAGES)
            low, high = right.proportion_ci(method="wilson")
            ends = f"{100 * low:.1f} to {100 * high:.1f}"
        published = PUBLISHED[name]
        lines.append(
            {
                "run": NAMES[name],
                "rounds": str(one["rounds"]),
                "accuracy, %": f"{100 * value:.1f} ({ends})",
                "of FedAvg": f"{value / accuracy(fedavg):.2f}",
                "published, %": f"{100 * published:.2f}",
                "published, of FedAvg": f"{published / PUBLISHED['none']:.2f}",
                "verdict": "" if one is fedavg else verdict(one, fedavg),
            }
        )
    return markdown(lines)


def main(arguments: list[str]) -> None:
    """Keeps the runs that are named, all or none, then writes the page."""
    rows = docs_blocks.DOCS / "results" / "resnet.jsonl"
    kept = {one["mechanism"] for one in kept_rows.read(rows)}
    new = [row(pathlib.Path(run)) for run in arguments[1:]]
    for one in new:
        if one["mechanism"] in kept:
            raise ValueError(f"the run of {NAMES[one['mechanism']]} is kept already")
        kept.add(one["mechanism"])
    for one in new:
        kept_rows.add(rows, one)
    page = docs_blocks.DOCS / "appendix" / "registered_resnet.md"
    blocks = {"registered_resnet": lambda: table(kept_rows.read(rows))}
    command.print_files([docs_blocks.rewrite(page, blocks)])


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
