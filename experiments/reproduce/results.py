"""Measured results and published tables: the files of docs/results/reproduction.

`collect` turns the folder of a finished sweep into one small JSON file. It holds what
the page needs and where it comes from: settings, versions, device, date, seconds and
command.
"""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax.report import read, tables

PUBLISHED = "published.json"
_BY_ROUND = ("noise_l2", "noise_std_mean", "contribution_ratio_mean")

Result = dict[str, Any]


def collect(folder: Path, *, name: str, command: str) -> Result:
    """What docs/results/reproduction keeps of a finished sweep.

    Raises:
      ValueError: a file is missing or damaged.
    """
    sweep = read.read_sweep(folder)
    finished = (folder / "cells.json").stat().st_mtime
    config = dict(sweep.config)
    return {
        "preset": name,
        "command": command,
        "date": datetime.datetime.fromtimestamp(finished, datetime.UTC)
        .date()
        .isoformat(),
        "device_kind": config.pop("device_kind"),
        "versions": config.pop("versions"),
        "timing": _timing(folder),
        "settings": config,
        "groups": [
            _group(group, seeds)
            for group, seeds in tables.groups(sweep.results).items()
        ],
    }


def _group(group: tables.Group, seeds: dict[int, list[read.Row]]) -> Result:
    """One mechanism at one ε: scores by seed, and means over the seeds by round."""
    runs = list(seeds.values())
    scores = [tables.best_and_last5(run) or (None, None) for run in runs]
    rounds = range(min(len(run) for run in runs))
    by_round = {
        name: [
            tables.mean_std(tables.present([run[t] for run in runs], name))[0]
            for t in rounds
        ]
        for name in _BY_ROUND
    }
    methods = read.spent_methods(runs[0])
    return {
        **group._asdict(),
        "seeds": list(seeds),
        "best": [best for best, _ in scores],
        "last5": [last5 for _, last5 in scores],
        "averaging": _averaging(runs),
        **by_round,
        "epsilon_spent": {
            method: [
                max(
                    (
                        value
                        for run in runs
                        if (value := run[t]["epsilon_spent"].get(method)) is not None
                    ),
                    default=None,
                )
                for t in rounds
            ]
            for method in methods
        },
    }


def _averaging(runs: Sequence[Sequence[read.Row]]) -> float | None:
    """Std of the averaged noise divided by an upload's, from their L2 norms."""
    rows = [row for run in runs for row in run if row["noise_l2"]]
    quotients = [row["aggregate_noise_l2"] / row["noise_l2"] for row in rows]
    return tables.mean_std(quotients)[0]


def _timing(folder: Path) -> dict[str, dict[str, float]]:
    """Seconds and rounds of all calls, by mechanism."""
    timing: dict[str, dict[str, float]] = {}
    for line in (folder / "timing.jsonl").read_text().splitlines():
        row = read.from_json(line)
        total = timing.setdefault(row["mechanism"], {"seconds": 0.0, "rounds": 0})
        total["seconds"] += row["seconds"]
        total["rounds"] += row["rounds"]
    return timing


def seconds(result: Result) -> float:
    """Time of all rounds, including compilation."""
    return sum(timing["seconds"] for timing in result["timing"].values())


def group_of(
    result: Result, mechanism: str, epsilon: float | None = None
) -> Result | None:
    """The group of a mechanism at an ε (None if its noise does not depend on ε)."""
    for group in result["groups"]:
        if (group["mechanism"], group["epsilon"]) == (mechanism, epsilon):
            return group
    return None


def noise_std(group: Result) -> float:
    """Std of the averaged noise, root mean square over the rounds."""
    stds = [value for value in group["noise_std_mean"] if value is not None]
    square = sum(std * std for std in stds) / len(stds)
    return square**0.5 * (group["averaging"] or 0.0)


def write(path: Path, result: Result) -> None:
    """Writes one result with one line per group, so that diffs stay small."""
    groups = ",\n".join(
        "    " + json.dumps(group, ensure_ascii=False) for group in result["groups"]
    )
    head = {key: value for key, value in result.items() if key != "groups"}
    text = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}")
    read.write_text(path, f'{text},\n  "groups": [\n{groups}\n  ]\n}}\n')


def load(folder: Path) -> dict[str, Result]:
    """All results of a folder, by preset.

    Raises:
      ValueError: a file was not written by `write`.
    """
    by_preset = {}
    for path in sorted(folder.glob("*.json")):
        if path.name == PUBLISHED:
            continue
        try:
            result = read.from_json(path.read_text())
            by_preset[result["preset"]] = result
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not the result of a preset: {error}") from None
    return by_preset


def published(folder: Path) -> dict[str, Result]:
    """The published tables by id: their title, source and cells (accuracies in %)."""
    body = read.from_json((folder / PUBLISHED).read_text())
    return {table["id"]: table for table in body["tables"]}
