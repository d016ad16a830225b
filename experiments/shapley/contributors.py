"""Do scores of clients tell who has bad data? Registered before it was run.

  python -m experiments.shapley.contributors --dataset=mnist --data_dir=FOLDER

plays the seeds that docs/results/shapley/clients.jsonl lacks; `docs_page` writes the
tables of docs/shapley.md.

Design. Per data set (MNIST, CIFAR-10) and seed of SEEDS, ten clients of `federation`,
dealt iid or with skewed classes; their bad examples have random labels or noisy images;
the model is a linear layer or one hidden layer of 128, on scattering features; so many
of each client's examples are bad as a ladder of DEGREES says, in an order of clients
that the seed draws. Scores of rounds are added up. Measures:

  tau   Kendall's, of scores and minus the degrees: the share of pairs of unlike degree
        in the right order less that in the wrong one; ladders `mild` (the degrees of
        GTG-Shapley's experiments) and `steep`
  auc   chance that a bad client scores lower than a good one; `three`

Verdicts, of `exact loss` against each of RIVALS: the mean over both data sets, deals,
kinds and models (for tau also both ladders) is one number per seed; the interval is
Student's, 95 %, of the difference over seeds, without a correction for their number. It
`wins` where the interval lies above 0, `loses` where below, else no difference is
shown. Learning rates were chosen on seed 1000 by the accuracy of clean clients; nothing
else was chosen, and no score of SEEDS was looked at before.
"""

import itertools
import pathlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import flags

from fedsvp_jax import student
from fedsvp_jax.data import sources
from fedsvp_jax.report.text_table import markdown

from .. import command, docs_blocks, kept_rows, provenance
from . import federation

SEEDS = range(1, 17)
DATASETS, DEALS = ("mnist", "cifar10"), ("iid", "skewed")
KINDS, MODELS = ("random_labels", "noisy_images"), ("logistic", "mlp")
DEGREES = {
    "mild": (0.0, 0.0, 0.05, 0.05, 0.1, 0.1, 0.15, 0.15, 0.2, 0.2),
    "steep": (0.0, 0.0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1.0, 1.0),
    "three": (0.9, 0.9, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
}
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


def tau(scores: np.ndarray, degrees: np.ndarray) -> float:
    """In [-1, 1]: 1 where every cleaner client scores higher; a tied score counts 0."""
    pairs = np.sign(scores[:, None] - scores) * np.sign(degrees - degrees[:, None])
    return float(pairs.sum() / np.count_nonzero(degrees - degrees[:, None]))


def auc(scores: np.ndarray, degrees: np.ndarray) -> float:
    """In [0, 1]: a bad client scores lower than a good one; a tie counts a half."""
    gap = scores[degrees == 0][:, None] - scores[degrees > 0]
    return float(np.mean((np.sign(gap) + 1) / 2))


def play(data: Any, seed: int) -> list[Row]:
    """All federations of one data set and seed."""
    rows = list[Row]()
    for deal in DEALS:
        images = federation.draw(data, deal, KINDS, seed)
        for kind, (ladder, degrees), model in itertools.product(
            KINDS, DEGREES.items(), MODELS
        ):
            order = np.random.default_rng((seed, len(rows))).permutation(10)
            mine = np.asarray(degrees)[order]
            x, y = federation.corrupted(images, kind, mine)
            scores, told = federation.scores(model, x, y, images.server, seed)
            measure = auc if ladder == "three" else tau
            row = {"deal": deal, "kind": kind, "ladder": ladder, "model": model}
            found = {
                name: round(measure(np.asarray(score, float), mine), 4)
                for name, score in sorted(scores.items())
            }
            rows.append(row | {k: round(v, 4) for k, v in told.items()} | {"by": found})
    return rows


def compute(values: flags.FlagValues, file: pathlib.Path) -> None:
    """Plays what the file lacks of a data set."""
    done = {(row["dataset"], row["seed"]) for row in kept_rows.read(file)}
    data = sources.load(values.dataset, values.data_dir)
    for seed in SEEDS:
        if (values.dataset, seed) in done:
            continue
        stamp = provenance.stamp(data, seed)
        row = {"dataset": values.dataset, "seed": seed, "played": play(data, seed)}
        kept_rows.add(file, row | {"provenance": stamp})


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
        for dataset, ladder in itertools.product(DATASETS, DEGREES):
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


def main(_: list[str]) -> None:
    """Plays what is missing."""
    compute(flags.FLAGS, docs_blocks.DOCS / FILE)


if __name__ == "__main__":
    flags.DEFINE_enum("dataset", "mnist", DATASETS, "Data set.")
    flags.DEFINE_string("data_dir", None, "Folder of the data set.", required=True)
    command.run(main, __doc__)
