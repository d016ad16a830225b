"""The kept cells of the tables to convergence, read as results of presets.

A cell is one mechanism at one ε (or at one given std of the noise), one seed and one
number of attributes, in one scenario (experiments/presets/*_medium.flags). All are
computed: docs/results/reproduction/medium/NAME.json. `load` turns them into what a
sweep would have given: one result per preset and number of attributes, with one group
per mechanism and level.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax.report import read

from .results import Result, group_of

KEPT = "medium"  # the folder of the cells, in docs/results/reproduction
SCENARIO_OF = {  # preset -> the column of the published tables
    "cifar10_medium": "ResNet-18 @ CIFAR-10",
    "femnist_medium": "CNN @ FEMNIST",
}
# Stds of an upload's noise: from where accuracy hardly falls to what the printed
# formulas give at the published ε or above: .115 to .575 and .0083 to .0412.
NOISE_STDS = {
    "femnist_medium": (0.003, 0.0083, 0.0146, 0.0206, 0.0412, 0.0824, 0.15, 0.3),
    "cifar10_medium": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.115, 0.288, 0.575),
}
CONVERGED = 0.01  # of accuracy: the most that a converged run gains in its last fifth


def load(folder: Path) -> dict[str, Result]:
    """The results by preset; those of N ≠ 2 attributes are `PRESET_nN`.

    Those of the other reading of the schedules are `PRESET_first_round`.

    Raises:
      ValueError: a file is not that of a cell.
    """
    by_preset: dict[str, list[Result]] = {}
    for path in sorted(folder.glob("*/*.json")):
        try:
            cell = read.from_json(path.read_text())
            number, reading = cell["num_attributes"], cell.get("schedule_level")
            suffix = "" if number == 2 else f"_n{number}"
            suffix += "_first_round" if reading == "first_round" else ""
            by_preset.setdefault(cell["preset"] + suffix, []).append(cell)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not the file of a cell: {error}") from None
    return {name: _result(name, cells) for name, cells in by_preset.items()}


def _result(name: str, cells: Sequence[Result]) -> Result:
    """What a sweep over these cells would have kept."""
    groups: dict[tuple[str, float | None], list[Result]] = {}
    for cell in sorted(cells, key=lambda cell: cell["seed"]):
        groups.setdefault((cell["mechanism"], cell["level"]), []).append(cell)
    dates = sorted({cell["date"] for cell in cells})
    return {
        "preset": name,
        "date": " … ".join(dict.fromkeys((dates[0], dates[-1]))),
        "device_kind": "; ".join(sorted({cell["device_kind"] for cell in cells})),
        "versions": cells[-1]["versions"],
        "xla_flags": cells[-1]["xla_flags"],
        "timing": _timing(cells),
        "settings": cells[-1]["settings"],
        "groups": [
            _group(*key, seeds)
            for key, seeds in sorted(
                groups.items(), key=lambda item: (item[0][0], item[0][1] or 0.0)
            )
        ],
    }


def _timing(cells: Sequence[Result]) -> dict[str, dict[str, float]]:
    """As of a sweep, in CPU seconds, compilation included, of all cells together.

    A cell that ran in several parts counts as much as the mean of the others.
    """
    timing = {}
    for name in {cell["mechanism"] for cell in cells}:
        own = [cell for cell in cells if cell["mechanism"] == name]
        timed = [cell["cpu_seconds"] for cell in own if "cpu_seconds" in cell]
        if timed:
            seconds = statistics.fmean(timed) * len(own)
            timing[name] = {"seconds": seconds, "rounds": len(own[0]["accuracy"])}
    return timing


def _group(mechanism: str, level: float | None, seeds: Sequence[Result]) -> Result:
    """One mechanism at one level: scores by seed, and means over the seeds by round."""
    given = mechanism == "gaussian"
    averaging = [cell["averaging"] for cell in seeds if cell["averaging"]]
    ratios = [cell["contribution_ratio"] for cell in seeds]
    return {
        "mechanism": mechanism,
        "epsilon": None if given else level,
        "noise_std": level if given else None,
        "seeds": [cell["seed"] for cell in seeds],
        "best": [max(cell["accuracy"]) for cell in seeds],
        "last5": [statistics.fmean(cell["accuracy"][-5:]) for cell in seeds],
        "gain": [last_fifth_gain(cell["accuracy"]) for cell in seeds],
        "accuracy": _mean_by_round([cell["accuracy"] for cell in seeds]),
        "averaging": statistics.fmean(averaging) if averaging else None,
        "noise_std_mean": [statistics.fmean(c["upload_noise_std"] for c in seeds)],
        "noise_l2": _mean_by_round([cell["noise_l2"] for cell in seeds]),
        "contribution_ratio_mean": None if None in ratios else _mean_by_round(ratios),
        "epsilon_spent": {"basic": seeds[0]["epsilon_spent"]},
    }


def _mean_by_round(runs: Iterable[Sequence[float]]) -> list[float]:
    return [statistics.fmean(row) for row in zip(*runs, strict=True)]


def last_fifth_gain(accuracy: Sequence[float]) -> float:
    """What a run gains in its last fifth: its last five rounds less the five before it.

    Both are means, so that the noise of one round does not decide.

    Args:
      accuracy: of every round; 25 or more rounds.
    """
    start = len(accuracy) - len(accuracy) // 5
    before = statistics.fmean(accuracy[start - 5 : start])
    return statistics.fmean(accuracy[-5:]) - before


def still_gains(group: Result) -> bool:
    """Whether the mean over the seeds gains CONVERGED or more in the last fifth.

    A schedule's cells may, since their noise falls until the last round.
    """
    return statistics.fmean(group["gain"]) >= CONVERGED


def progress(
    measured: Mapping[str, Result], published: Mapping[str, Result]
) -> list[dict[str, str]]:
    """One row per published table and scenario: which of its cells are measured."""
    rows = []
    for table, name in (
        ("fedsva_table1", "FedSVA, Table 1"),
        ("fedsdp_table1", "FedSDP, Table I"),
        ("fedsva_table2", "FedSVA, Table 2"),
    ):
        for preset, scenario in SCENARIO_OF.items():
            cells = [c for c in published[table]["cells"] if is_of(c, scenario)]
            if not cells:
                continue
            found = [measured_group(measured, preset, cell) for cell in cells]
            groups = [group for group in found if group]
            fedavg = group_of(measured.get(preset, {"groups": []}), "none")
            long_enough = fedavg is not None and not still_gains(fedavg)
            rows.append(
                {
                    "table": name,
                    "scenario": scenario,
                    "published cells": str(len(cells)),
                    "measured": str(len(groups)),
                    "at a length at which FedAvg has converged": str(
                        len(groups) if long_enough else 0
                    ),
                    "still gaining a point themselves": str(
                        sum(map(still_gains, groups))
                    ),
                    "with 3 seeds": str(
                        sum(len(group["seeds"]) >= 3 for group in groups)
                    ),
                }
            )
    sums = {
        name: str(sum(int(row[name]) for row in rows)) for name in list(rows[0])[2:]
    }
    return [*rows, {"table": "all", "scenario": "", **sums}]


def is_of(cell: Mapping[str, Any], scenario: str) -> bool:
    """Table 2 names no scenario: it is the first one's."""
    return cell.get("scenario", SCENARIO_OF["cifar10_medium"]) == scenario


def measured_group(
    measured: Mapping[str, Result], preset: str, cell: Mapping[str, Any]
) -> Result | None:
    number = cell.get("num_attributes", 2)
    name = preset if number == 2 else f"{preset}_n{number}"
    if name not in measured:
        return None
    return group_of(measured[name], cell.get("mechanism", "fedsva"), cell["epsilon"])
