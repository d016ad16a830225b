"""The papers' table from a sweep's results: mean ± std over seeds.

    best_s  = a_{s,t*},     last5_s = mean of the last five a_{s,t}
    mean    = Σ_s x_s / S,       std = sqrt(Σ_s (x_s − mean)² / (S − 1))
    loss vs FedAvg = 100 · (mean_FedAvg − mean) / mean_FedAvg

a_{s,t} is the test accuracy of seed s in round t, among the rounds that were
evaluated. t* is the round of the highest validation accuracy, or where the rows tell
none, of the highest test accuracy.

Source of the columns: FedSDP, Table I and FedSVA, Table 1 (best accuracy, mean of the
last five rounds, percentage below FedAvg). The papers do not say whether the percentage
is relative or in points; here it is relative. They do not say which std they use
either; here it is the sample's (S − 1).
"""

import csv
import dataclasses
import io
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from fedsvp_jax import mechanisms
from fedsvp_jax.core import student
from fedsvp_jax.report import labels, read, spent, text_table
from fedsvp_jax.run import records

_BY_METHOD = ("epsilon_spent", "status")


Spread: TypeAlias = tuple[float | None, float | None]  # mean and std over seeds


class Group(NamedTuple):
    """The mechanism and settings of one row of the table; its seeds share them."""

    mechanism: str
    epsilon: float | None  # per upload; None where it does not set the noise
    total_epsilon: float | None  # of the run, where the noise was solved for it

    @property
    def setting(self) -> str:
        """`ε = 0.2`; empty where ε does not set the noise."""
        if self.total_epsilon is not None:
            return f"ε of the run = {labels.significant(self.total_epsilon)}"
        if self.epsilon is not None:
            return f"ε = {labels.significant(self.epsilon)}"
        return ""


@dataclasses.dataclass(frozen=True)
class SummaryRow:
    """One Group of a sweep. Accuracies are in [0, 1]; None where not measured."""

    mechanism: str
    epsilon: float | None
    total_epsilon: float | None
    num_seeds: int
    num_rounds: int  # rounds that every seed has
    best_by: str | None  # what chose the best rounds; None where nothing is evaluated
    best_mean: float | None
    best_std: float | None  # None with fewer than two seeds
    last5_mean: float | None
    last5_std: float | None
    private_mean: float | None  # last5 of the private attribute's test examples
    private_std: float | None
    worst_tenth_mean: float | None  # last5 of the clients that are served worst
    worst_tenth_std: float | None
    best_below_fedavg: float | None  # percent; None where the sweep has no FedAvg
    last5_below_fedavg: float | None
    last5_p: float | None  # paired with FedAvg by seed; None where it cannot be
    noise_l2: float | None  # noise on an upload, mean over rounds and seeds
    step_noise_std: float | None  # noise in a local step, likewise
    epsilon_spent: dict[str, float | None]  # by accounting method, after the last round
    delta_spent: float | None  # Σδ as claimed, at which basic's ε holds; likewise
    target_delta: float | None  # δ at which the other methods' ε holds
    status: dict[str, str]  # "proved" or "nominal" by method; empty without a claim
    adversary: str | None  # against whom ε spent is claimed
    relation: str | None  # the neighbouring relation that it is claimed for

    @property
    def groups(self) -> tuple[Spread, Spread]:
        """The accuracies that `group_cells` shows."""
        worst = self.worst_tenth_mean, self.worst_tenth_std
        return (self.private_mean, self.private_std), worst


def groups(results: Sequence[read.Row]) -> dict[Group, dict[int, list[read.Row]]]:
    """Rows by group and seed, sorted by round; of a repeated round the last one counts.

    A mechanism whose noise does not depend on ε is one group, whatever ε its rows
    hold.
    """
    by_group: dict[Group, dict[int, dict[int, read.Row]]] = {}
    for row in results:
        by_epsilon = mechanisms.about(row["mechanism"]).epsilon_sets_noise
        group = Group(
            row["mechanism"],
            read.number(row["epsilon"]) if by_epsilon else None,
            read.number(row.get("total_epsilon")),
        )
        seeds = by_group.setdefault(group, {})
        seeds.setdefault(row["seed"], {})[row["round"]] = row
    return {
        group: {
            seed: [rounds[t] for t in sorted(rounds)]
            for seed, rounds in sorted(by_group[group].items())
        }
        for group in sorted(by_group, key=_order)
    }


def summarize(results: Sequence[read.Row]) -> list[SummaryRow]:
    """One row per group: FedAvg first, then by mechanism and ε.

    Args:
      results: the rows of results.jsonl, one per cell and round.

    Raises:
      ValueError: there is no row.
    """
    if not results:
        raise ValueError("results must hold at least one row, got none")
    by_group = groups(results)
    summaries = [_row(group, list(seeds.values())) for group, seeds in by_group.items()]
    fedavg = next((row for row in summaries if row.mechanism == "none"), None)
    by_seed = [_last5_by_seed(seeds) for seeds in by_group.values()]
    free = next(
        (by_seed[n] for n, g in enumerate(by_group) if g.mechanism == "none"), {}
    )
    p_values = [
        None if runs is free else student.paired_p(runs, free) for runs in by_seed
    ]
    return [
        dataclasses.replace(_with_gap(row, fedavg), last5_p=p)
        for row, p in zip(summaries, student.holm_adjusted(p_values), strict=True)
    ]


def _last5_by_seed(seeds: dict[int, list[read.Row]]) -> dict[int, float]:
    scores = {seed: _scores(run)["final5_accuracy"] for seed, run in seeds.items()}
    return {seed: score for seed, score in scores.items() if score is not None}


def csv_table(rows: Sequence[SummaryRow]) -> str:
    """The table as CSV: numbers to the seven digits of float32, empty where unknown."""
    by_column = columns(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(by_column)
    for row in zip(*by_column.values(), strict=True):
        writer.writerow(float(f"{v:.7g}") if isinstance(v, float) else v for v in row)
    return text.getvalue()


def columns(rows: Sequence[SummaryRow]) -> dict[str, list[Any]]:
    """The rows by column; ε spent and status have one per accounting method."""
    fields = [f.name for f in dataclasses.fields(SummaryRow)]
    by_column = {
        name: [getattr(row, name) for row in rows]
        for name in fields
        if name not in _BY_METHOD
        and (name != "total_epsilon" or any(row.total_epsilon for row in rows))
    }
    methods = dict.fromkeys(method for row in rows for method in row.epsilon_spent)
    for name in _BY_METHOD:
        for method in methods:
            values = [getattr(row, name).get(method) for row in rows]
            by_column[f"{name}_{method}"] = values
    return by_column


def shown_cells(rows: Sequence[SummaryRow]) -> list[dict[str, str]]:
    """The columns of a table that is read; table.csv has all of them (`columns`).

    ε spent is the least of what Rényi DP and privacy loss distributions give at one δ,
    where a run counts by them.
    """
    totals = any(row.total_epsilon for row in rows)
    costs = spent.least_columns([dataclasses.asdict(row) for row in rows])
    return [_cells(row, totals, cost) for row, cost in zip(rows, costs, strict=True)]


def _accuracy(row: SummaryRow) -> str:
    """`71.2 (69.8 to 72.6)`: mean and Student's 95 % interval over seeds."""
    mean = labels.percent(row.last5_mean, digits=1)
    if row.last5_mean is None or row.last5_std is None:
        return mean
    half = float(student.half_width(row.last5_std, row.num_seeds))
    low, high = max(0.0, row.last5_mean - half), min(1.0, row.last5_mean + half)
    ends = f"{labels.percent(low, digits=1)} to {labels.percent(high, digits=1)}"
    return f"{mean} ({ends})"


def group_cells(rows: Sequence[tuple[Spread, Spread]]) -> list[dict[str, str]]:
    """Columns of the private attribute and of the worst served; empty ones left out."""
    heads = ("private, last 5 %", "worst tenth, last 5 %")
    filled = [
        number
        for number in range(len(heads))
        if any(row[number][0] is not None for row in rows)
    ]
    return [{heads[n]: labels.percent(*row[n]) for n in filled} for row in rows]


def write_tables(sweep_dir: str | Path) -> tuple[Path, Path]:
    """Writes table.md and table.csv from the sweep's results.jsonl.

    Returns:
      The paths of table.md and table.csv.

    Raises:
      ValueError: a file is missing or damaged.
    """
    rows = summarize(read.read_sweep(sweep_dir).results)
    markdown, table = Path(sweep_dir) / "table.md", Path(sweep_dir) / "table.csv"
    read.write_text(markdown, text_table.markdown(shown_cells(rows)))
    read.write_text(table, csv_table(rows))
    return markdown, table


def mean_std(values: Sequence[float]) -> Spread:
    """Mean and sample std; None for no value, std None for fewer than two."""
    if not values:
        return None, None
    std = statistics.stdev(values) if len(values) > 1 else None
    return statistics.fmean(values), std


def _scores(rows: Sequence[read.Row]) -> dict[str, Any]:
    """`records.score_summary` of one run; numbers that are not finite are none."""
    return records.score_summary(
        [
            {"round": row["round"]}
            | {name: read.number(row.get(name)) for name in records.SCORES}
            for row in rows
        ]
    )


def present(rows: Sequence[read.Row], name: str) -> list[float]:
    """The field's finite numbers, in the rows' order."""
    numbers = (read.number(row.get(name)) for row in rows)
    return [value for value in numbers if value is not None]


def _row(group: Group, runs: Sequence[Sequence[read.Row]]) -> SummaryRow:
    scores = [_scores(run) for run in runs]

    def spread(name: str) -> Spread:
        return mean_std([score[name] for score in scores if score[name] is not None])

    best_mean, best_std = spread("best_accuracy")
    last5_mean, last5_std = spread("final5_accuracy")
    private_mean, private_std = spread("final5_private_accuracy")
    worst_tenth_mean, worst_tenth_std = spread("final5_worst_tenth_accuracy")
    noise, step_noise = (
        mean_std([value for run in runs for value in present(run, name)])[0]
        for name in ("noise_l2", "step_noise_std_mean")
    )
    return SummaryRow(
        **group._asdict(),
        num_seeds=len(runs),
        num_rounds=min(len(run) for run in runs),
        best_by=scores[0]["best_by"],
        best_mean=best_mean,
        best_std=best_std,
        last5_mean=last5_mean,
        last5_std=last5_std,
        private_mean=private_mean,
        private_std=private_std,
        worst_tenth_mean=worst_tenth_mean,
        worst_tenth_std=worst_tenth_std,
        best_below_fedavg=None,
        last5_below_fedavg=None,
        last5_p=None,
        noise_l2=noise,
        step_noise_std=step_noise,
        epsilon_spent=_spent(runs),
        delta_spent=_largest(runs, "delta_spent"),
        target_delta=_largest(runs, "target_delta"),
        status=_status(runs),
        adversary=_word(runs, "adversary"),
        relation=_word(runs, "relation"),
    )


def _spent(runs: Sequence[Sequence[read.Row]]) -> dict[str, float | None]:
    """The largest over seeds: a guarantee holds for the worst case."""
    last = [run[-1].get("epsilon_spent") or {} for run in runs]
    methods = dict.fromkeys(name for spent in last for name in spent)
    result: dict[str, float | None] = {}
    for name in methods:
        values = [read.number(spent.get(name)) for spent in last]
        finite = [value for value in values if value is not None]
        result[name] = max(finite) if len(finite) == len(values) else None
    return result


def _largest(runs: Sequence[Sequence[read.Row]], name: str) -> float | None:
    """Of the last rounds of all seeds."""
    return max(present([run[-1] for run in runs], name), default=None)


def _status(runs: Sequence[Sequence[read.Row]]) -> dict[str, str]:
    """By method; nominal where one seed's is."""
    result: dict[str, str] = {}
    for run in runs:
        for method, word in (run[-1].get("status") or {}).items():
            if result.get(method) != "nominal":
                result[method] = str(word)
    return result


def _word(runs: Sequence[Sequence[read.Row]], name: str) -> str | None:
    """Of the last rounds; seeds share it, as they share the mechanism's settings."""
    words = dict.fromkeys(str(run[-1][name]) for run in runs if run[-1].get(name))
    return " or ".join(words) or None


def _with_gap(row: SummaryRow, fedavg: SummaryRow | None) -> SummaryRow:
    if fedavg is None or row.mechanism == "none":
        return row
    return dataclasses.replace(
        row,
        best_below_fedavg=_below(row.best_mean, fedavg.best_mean),
        last5_below_fedavg=_below(row.last5_mean, fedavg.last5_mean),
    )


def _below(value: float | None, reference: float | None) -> float | None:
    if value is None or not reference:
        return None
    return 100 * (reference - value) / reference


def _order(group: Group) -> tuple[bool, str, list[float]]:
    mechanism, *settings = group
    levels = [-1.0 if value is None else value for value in settings]
    return mechanism != "none", mechanism, levels


def _cells(row: SummaryRow, totals: bool, cost: dict[str, str]) -> dict[str, str]:
    """By column; `totals`: the rows are named by the ε of the run."""
    gap = row.last5_below_fedavg
    return {
        "mechanism": mechanisms.about(row.mechanism).label,
        "ε of the run" if totals else "ε per upload": labels.significant(
            row.total_epsilon if totals else row.epsilon
        ),
        "accuracy, last 5 %": _accuracy(row),
        "loss vs FedAvg, %": "–" if gap is None else f"{gap:.1f}",
        **cost,
    }
