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

import dataclasses
import operator
import statistics
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting.participation import SEED
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core import student
from fedsvp_jax.core.files import Record
from fedsvp_jax.run import plugin, records
from fedsvp_jax.run.sweep import SweepPlan, cell_key, cell_name

from . import labels, read

# The scores of a run by their columns in table.csv; `records.score_summary` has all but
# AUC, which cells.json has of tables.
SCORES = {
    "best": "best_accuracy",
    "last5": "final5_accuracy",
    "private": "final5_private_accuracy",
    "worst_tenth": "final5_worst_tenth_accuracy",
    "auc": "auc",
}

Rows = Sequence[Record]
Spread = tuple[float | None, float | None]  # mean and std over seeds
BySeed = dict[int, list[Record]]


class Group(NamedTuple):
    """The mechanism and settings of one row of the table; its seeds share them."""

    mechanism: str
    epsilon: float | None  # per upload; None where it does not set the noise
    total_epsilon: float | None  # of the run, where the noise was solved for it

    @property
    def name(self) -> str:
        """`FedSVA, ε = 0.2`; the mechanism alone where ε does not set the noise."""
        label = mechanisms.about(self.mechanism).label
        if self.total_epsilon is not None:
            return f"{label}, ε of the run = {labels.significant(self.total_epsilon)}"
        if self.epsilon is not None:
            return f"{label}, ε = {labels.significant(self.epsilon)}"
        return label


@dataclasses.dataclass(frozen=True)
class SummaryRow:
    """One Group of a sweep. Accuracies are in [0, 1]; None where not measured."""

    mechanism: str
    epsilon: float | None
    total_epsilon: float | None
    num_seeds: int
    num_rounds: int  # rounds that every seed has
    best_by: str | None  # what chose the best rounds; None where nothing is evaluated
    scores: dict[str, Spread]  # of SCORES; a std is None with fewer than two seeds
    last5_below_fedavg: float | None  # percent; None where the sweep has no FedAvg
    noise_l2: float | None  # noise on an upload, mean over rounds and seeds
    step_noise_std: float | None  # noise in a local step, likewise
    epsilon_spent: dict[str, float | None]  # by accounting method, after the last round
    delta_spent: float | None  # Σδ as claimed, at which basic's ε holds; likewise
    target_delta: float | None  # δ at which the other methods' ε holds
    status: dict[str, str]  # "proved" or "nominal" by method; empty without a claim
    adversary: str | None  # against whom ε spent is claimed
    relation: str | None  # the neighbouring relation that it is claimed for
    assumption: str | None  # of a claim whose noise follows from a seed
    # The rows of each seed; no column of table.csv.
    runs: list[list[Record]] = dataclasses.field(compare=False)

    @property
    def group(self) -> Group:
        """The mechanism and settings."""
        return Group(self.mechanism, self.epsilon, self.total_epsilon)

    @property
    def accuracy(self) -> float | None:
        """The mean over seeds of the last five rounds."""
        return self.scores["last5"][0]

    @property
    def record(self) -> Record:
        """What table.csv has of it: of a score mean, std and half of the interval."""
        names = ("mean", "std", "half_width")
        scores = {
            name: dict(zip(names, (*spread, self.half_width(name)), strict=True))
            for name, spread in self.scores.items()
        }
        return vars(self) | {"scores": scores}

    def interval(self, score: str = "last5") -> tuple[float, float] | None:
        """Student's 95 % interval of a score over seeds, within [0, 1]."""
        mean, half = self.scores[score][0], self.half_width(score)
        if mean is None or half is None:
            return None
        return max(0.0, mean - half), min(1.0, mean + half)

    def half_width(self, score: str) -> float | None:
        """Half of that interval before it is cut; None with fewer than two seeds."""
        std = self.scores[score][1]
        return None if std is None else float(student.half_width(std, self.num_seeds))


def groups(results: Rows) -> dict[Group, BySeed]:
    """Rows by group and seed, sorted by round; of a repeated round the last one counts.

    A mechanism whose noise does not depend on ε is one group, whatever ε its rows
    hold. FedAvg comes first, then by mechanism and ε.
    """
    by_group: dict[Group, dict[int, dict[int, Record]]] = {}
    for row in sorted(results, key=operator.itemgetter("seed", "round")):
        seeds = by_group.setdefault(group_of(row), {})
        seeds.setdefault(row["seed"], {})[row["round"]] = row
    order = sorted(
        by_group,
        key=lambda g: (g.mechanism != "none", *(value or 0.0 for value in g)),
    )
    return {
        group: {seed: [*rounds.values()] for seed, rounds in by_group[group].items()}
        for group in order
    }


def group_of(row: Record) -> Group:
    """The group of a line of results.jsonl or an entry of cells.json."""
    by_epsilon = mechanisms.about(row["mechanism"]).epsilon_sets_noise
    return Group(
        row["mechanism"],
        read.number(row["epsilon"]) if by_epsilon else None,
        read.number(row.get("total_epsilon")),
    )


def summarize(results: Rows, cells: Rows = ()) -> list[SummaryRow]:
    """One row per group, in the order of `groups`.

    Args:
      results: the rows of results.jsonl, one per cell and round.
      cells: those of cells.json, whose `test_scores` hold the AUC.

    Raises:
      ValueError: there is no row.
    """
    if not results:
        raise ValueError("results must hold at least one row, got none")
    areas = {
        (group_of(cell), cell["seed"]): read.number(cell["test_scores"]["auc"])
        for cell in cells
        if cell.get("test_scores")
    }
    rows: list[SummaryRow] = []
    for group, seeds in groups(results).items():
        runs = [*seeds.values()]
        scores = [
            records.score_summary(run) | {"auc": areas.get((group, seed))}
            for seed, run in seeds.items()
        ]
        spreads = {name: mean_std(present(scores, key)) for name, key in SCORES.items()}
        below, mean = None, spreads["last5"][0]
        if mean is not None and rows and rows[0].mechanism == "none":  # FedAvg's
            reference = rows[0].accuracy
            below = reference and 100 * (reference - mean) / reference
        last = [run[-1] for run in runs]
        # By method: nominal where that of any seed is.
        words = [item for row in last for item in (row.get("status") or {}).items()]
        status = dict(sorted(words, key=operator.itemgetter(1), reverse=True))
        noise, step_noise = (
            mean_std([value for run in runs for value in present(run, name)])[0]
            for name in ("noise_l2", "step_noise_std_mean")
        )
        rows.append(
            SummaryRow(
                **group._asdict(),
                num_seeds=len(runs),
                num_rounds=min(map(len, runs)),
                best_by=scores[0]["best_by"],
                scores=spreads,
                last5_below_fedavg=below,
                noise_l2=noise,
                step_noise_std=step_noise,
                epsilon_spent=_spent(last),
                delta_spent=max(present(last, "delta_spent"), default=None),
                target_delta=max(present(last, "target_delta"), default=None),
                status=status,
                adversary=_words(last, "adversary"),
                relation=_words(last, "relation"),
                assumption=SEED if status and not last[0].get("secret_noise") else None,
                runs=runs,
            )
        )
    return rows


def mean_std(values: Sequence[float]) -> Spread:
    """Mean and sample std; None for no value, std None for fewer than two."""
    if not values:
        return None, None
    std = statistics.stdev(values) if len(values) > 1 else None
    return statistics.fmean(values), std


def wilson(share: float, rows: int) -> tuple[float, float]:
    """The 95 % interval of a share of right rows (Wilson 1927)."""
    from scipy import stats

    interval = stats.binomtest(round(share * rows), rows).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def present(rows: Sequence[Record], name: str) -> list[float]:
    """The field's finite numbers, in the rows' order."""
    return [value for row in rows if (value := read.number(row.get(name))) is not None]


def _spent(last: Rows) -> dict[str, float | None]:
    """The largest ε over seeds by method, since a guarantee is for the worst case."""
    spent = [row.get("epsilon_spent") or {} for row in last]
    finite = {name: present(spent, name) for name in dict.fromkeys(chain(*spent))}
    return {
        name: max(values) if len(values) == len(spent) else None
        for name, values in finite.items()
    }


def _words(last: Rows, name: str) -> str | None:
    """A field's text. All seeds have the same, since they share the settings."""
    return " or ".join(dict.fromkeys(str(r[name]) for r in last if r.get(name))) or None


def columns(rows: Iterable[SummaryRow | Record]) -> dict[str, list[Any]]:
    """The rows by column: one for each item of a dict, and none for a list."""
    records = [
        dict(_flat(row if isinstance(row, dict) else row.record)) for row in rows
    ]
    names = dict.fromkeys(chain(*records))
    return {name: [record.get(name) for record in records] for name in names}


def _flat(record: Record, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, "" if name == "scores" else f"{prefix}{name}_")
        elif not isinstance(value, list):
            yield prefix + name, value


def how_far(sweep: read.SweepFiles) -> Record | None:
    """How far a sweep is that has not ended; None at its end.

    Returns:
      `round`, that of the cells that run, 0 where none does; and `waiting`, names of
      cells that have not started.
    """
    if plugin.missing(sweep.config):  # whose cells are not known
        return None
    plan, rounds = SweepPlan.recorded(sweep.config), dict[Hashable, int]()
    for row in (*sweep.results, *sweep.cells):  # cells that have ended, without a round
        rounds[cell_key(row)] = row.get("round", 0)
    waiting = [
        f"{group_of(cell).name}, seed {cell['seed']}"
        for configs in plan.programs(ExperimentConfig()).values()
        for cell in map(cell_name, configs)
        if cell_key(cell) not in rounds
    ]
    place = max(rounds.values())
    return {"round": place, "waiting": waiting} if place or waiting else None
