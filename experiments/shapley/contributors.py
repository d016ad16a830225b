"""Do scores of clients tell who has bad data? Registered before it was run.

`docs_page` writes the tables of docs/results/shapley.md, which say by which code the
rows were computed.

Design. Per data set (MNIST, CIFAR-10) and seed, of 16 that were registered, ten
clients, dealt iid or with skewed classes; their bad examples have random labels or
noisy images; the model is a linear layer or one hidden layer of 128, on scattering
features; so many of each client's examples are bad as a ladder says, in an order of
clients that the seed draws: `mild` (0 to .2 in steps of .05, as in GTG-Shapley's
experiments), `steep` (0 to 1 in steps of .25), `three` (three clients with .9). Scores
of rounds are added up. Measures:

  tau   Kendall's, of scores and minus the degrees: the share of pairs of unlike degree
        in the right order less that in the wrong one; ladders `mild` and `steep`
  auc   chance that a bad client scores lower than a good one; `three`

Verdicts, of `exact loss` against each of RIVALS: the mean over both data sets, deals,
kinds and models (for tau also both ladders) is one number per seed; the interval is
Student's, 95 %, of the difference over seeds, without a correction for their number. It
`wins` where the interval lies above 0, `loses` where below, else no difference is
shown. Learning rates were chosen on seed 1000 by the accuracy of clean clients; nothing
else was chosen, and no score of these seeds was looked at before.
"""

import itertools
import pathlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedsvp_jax import student
from fedsvp_jax.report.text_table import markdown

from .. import kept_rows

DATASETS, DEALS = ("mnist", "cifar10"), ("iid", "skewed")
LADDERS = ("mild", "steep", "three")
MINE = "exact loss"
RIVALS = (
    "additive loss",
    "gp loss",
    "GTG-Shapley (our code) accuracy",
    "leave-one-out loss",
    "lazy influence, no noise",
    "centre",
)
FILE = pathlib.Path("results/shapley/clients.jsonl")  # in docs
Row = dict[str, Any]


def _by_seed(rows: Sequence[Row], **wanted: Sequence[str]) -> dict[int, list[Row]]:
    """By seed, the scores' measures of the federations that are as wanted."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        for one in row["played"]:
            told = one | {"dataset": row["dataset"]}
            if all(told[name] in values for name, values in wanted.items()):
                found.setdefault(row["seed"], []).append(one["by"])
    return found


def table(rows: Sequence[Row]) -> str:
    """A line per deal and score: means over seeds, kinds, models ± half an interval."""
    lines = []
    for deal, name in itertools.product(DEALS, sorted(rows[0]["played"][0]["by"])):
        line = {"classes": deal, "score": name}
        for dataset, ladder in itertools.product(DATASETS, LADDERS):
            found = _by_seed(rows, deal=[deal], dataset=[dataset], ladder=[ladder])
            numbers = [statistics.fmean(by[name] for by in s) for s in found.values()]
            half = student.half_width(np.std(numbers, ddof=1), len(numbers))
            measure = "AUC" if ladder == "three" else f"τ {ladder}"
            line[f"{_NAMES[dataset]} {measure}"] = (
                f"{statistics.fmean(numbers):.2f} ± {half:.2f}"
            )
        lines.append(line)
    return markdown(lines)


_NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


def verdicts(rows: Sequence[Row]) -> str:
    """The registered comparisons."""
    lines = []
    measures = {"τ": ("mild", "steep"), "AUC": ("three",)}
    for (measure, ladders), rival in itertools.product(measures.items(), RIVALS):
        numbers = [
            statistics.fmean(by[MINE] - by[rival] for by in seed)
            for seed in _by_seed(rows, ladder=ladders).values()
        ]
        low, high = student.interval(numbers)
        verdict = "wins" if low > 0 else "loses" if high < 0 else "none shown"
        lines.append(
            {
                "measure": measure,
                f"`{MINE}` less": rival,
                f"difference, {len(numbers)} seeds (95 %)": (
                    f"{statistics.fmean(numbers):+.3f} ({low:+.3f} to {high:+.3f})"
                ),
                "finding": verdict,
            }
        )
    return markdown(lines)


def blocks(docs_dir: pathlib.Path) -> dict[str, Callable[[], str]]:
    """What docs_page writes of the seeds that were played on all data sets."""
    rows = kept_rows.read(docs_dir / FILE)
    seeds = [{row["seed"] for row in rows if row["dataset"] == d} for d in DATASETS]
    rows = [row for row in rows if row["seed"] in set.intersection(*seeds)]
    return {"clients": lambda: verdicts(rows), "scores": lambda: table(rows)}
