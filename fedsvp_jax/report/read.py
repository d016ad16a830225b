"""Read the files of a run or a sweep.

Reports are made from files alone, so that a page can be rebuilt years later.
Every error is a ValueError of one sentence: the file, the line and what is wrong.
"""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fedsvp_jax.run.records import score_summary

Row = dict[str, Any]

RUN_FILES = ("config.json", "metrics.jsonl", "clients.jsonl", "summary.json")
SWEEP_FILES = ("config.json", "results.jsonl")


@dataclasses.dataclass(frozen=True)
class RunFiles:
    """The files of one run, without its checkpoints and timings."""

    config: Row
    metrics: list[Row]  # one row per round, sorted by round
    clients: list[Row]  # one row per upload, sorted by round, then client
    summary: Row  # of an unfinished run, computed from its rows
    unfinished: str | None  # how far it came, in a sentence; None at its end
    sha256: dict[str, str]  # file name -> hash of its bytes

    @property
    def results(self) -> list[Row]:
        """The rounds as a sweep of this run alone holds them."""
        return [self._as_cell(row) for row in self.metrics]

    @property
    def cells(self) -> list[Row]:
        """The summary as such a sweep holds it."""
        return [self._as_cell(self.summary)]

    def _as_cell(self, row: Row) -> Row:
        names = ("mechanism", "epsilon", "total_epsilon", "seed")
        return row | {name: self.config.get(name) for name in names}


@dataclasses.dataclass(frozen=True)
class SweepFiles:
    """The files of one sweep, without its checkpoints and timings."""

    config: Row
    results: list[Row]  # one row per cell and round
    cells: list[Row]  # one summary per cell of the finished mechanisms
    sha256: dict[str, str]


def is_sweep(folder: str | Path) -> bool:
    """Whether the folder is a sweep's: whether it has results.jsonl."""
    return (Path(folder) / "results.jsonl").is_file()


def read_run(run_dir: str | Path) -> RunFiles:
    """Reads a run's folder; an unfinished run is read up to its last row.

    Raises:
      ValueError: a file is missing, damaged or empty, or the folder is a sweep's.
    """
    folder = _existing(run_dir)
    if is_sweep(folder) and not (folder / "metrics.jsonl").is_file():
        raise ValueError(
            f"{folder} is a sweep's folder, and a single run's was expected"
        )
    ended = (folder / "summary.json").is_file()
    names = RUN_FILES if ended else RUN_FILES[:-1]
    texts = {name: _text(folder / name) for name in names}
    if not ended:  # a killed run may leave a torn last line
        for name in names[1:]:
            texts[name] = texts[name][: texts[name].rfind("\n") + 1]
    metrics = _rows(folder / "metrics.jsonl", texts["metrics.jsonl"])
    clients = _rows(folder / "clients.jsonl", texts["clients.jsonl"], may_be_empty=True)
    _require(folder / "metrics.jsonl", metrics, ("round", "test_accuracy"))
    _require(folder / "clients.jsonl", clients, ("round", "client", "noise_std"))
    config = _object(folder / "config.json", texts["config.json"])
    metrics = sorted(metrics, key=lambda row: row["round"])
    return RunFiles(
        config=config,
        metrics=metrics,
        clients=sorted(clients, key=lambda row: (row["round"], row["client"])),
        summary=_object(folder / "summary.json", texts["summary.json"])
        if ended
        else _summary_so_far(metrics),
        unfinished=None if ended else _how_far(config, metrics),
        sha256=_hashes(texts),
    )


def read_sweep(sweep_dir: str | Path) -> SweepFiles:
    """Reads a sweep's folder; an unfinished sweep is read up to its last round.

    Raises:
      ValueError: a file is missing, damaged or empty.
    """
    folder = _existing(sweep_dir)
    texts = {name: _text(folder / name) for name in SWEEP_FILES}
    results = _rows(folder / "results.jsonl", texts["results.jsonl"])
    keys = ("mechanism", "epsilon", "seed", "round", "test_accuracy")
    _require(folder / "results.jsonl", results, keys)
    return SweepFiles(
        config=_object(folder / "config.json", texts["config.json"]),
        results=results,
        cells=_cells(folder / "cells.json"),
        sha256=_hashes(texts),
    )


Files: TypeAlias = RunFiles | SweepFiles


def read_folder(folder: str | Path) -> Files:
    """Reads a run's folder or a sweep's; errors as of the two."""
    return read_sweep(folder) if is_sweep(folder) else read_run(folder)


def read_all(folders: Sequence[str | Path]) -> dict[str, Files]:
    """Several folders' files by a short name: the path relative to their common parent.

    Raises:
      ValueError: fewer than two folders, a run that has not ended, a damaged file.
    """
    paths = list(dict.fromkeys(Path(os.path.abspath(folder)) for folder in folders))
    if len(paths) < 2:
        raise ValueError(f"a comparison needs at least two folders, got {len(paths)}")
    common = os.path.commonpath([path.parent for path in paths])
    files = {os.path.relpath(path, common): read_folder(path) for path in paths}
    for path, result in zip(paths, files.values(), strict=True):
        if isinstance(result, RunFiles) and result.unfinished is not None:
            raise ValueError(f"{path} cannot be compared: {result.unfinished}")
    return files


def client_name(summary: Row, client: int) -> str:
    """`Basel (3)` where the data name clients, else `3`."""
    names = summary.get("client_names")
    if not isinstance(names, list) or client >= len(names):
        return str(client)
    return f"{names[client]} ({client})"


def number(value: float | None) -> float | None:
    """The number as a float; None for null, NaN and infinities."""
    return float(value) if value is not None and math.isfinite(value) else None


# Fields of rows and summaries about ε spent (`claims.row`).
SPENT = (
    "epsilon_spent",
    "status",
    "delta_spent",
    "target_delta",
    "adversary",
    "relation",
)


def guarantees(summary: Mapping[str, Any]) -> list[Row]:
    """The guarantees of summary.json or of a cell, each with its `status`."""
    return [row for row in summary.get("guarantees") or [] if isinstance(row, dict)]


def diverged(row: Row) -> bool:
    """Whether an upload or the model of the row's round was not finite."""
    return bool(row.get("diverged_clients")) or row.get("model_finite") is False


def _summary_so_far(metrics: list[Row]) -> Row:
    """The fields of summary.json that follow from the rows."""
    last = metrics[-1]
    return {
        "rounds": len(metrics),
        **score_summary(metrics),
        "diverged_in_round": next((r["round"] for r in metrics if diverged(r)), None),
        **{name: last[name] for name in SPENT if name in last},
    }


def _how_far(config: Row, metrics: list[Row]) -> str:
    """A sentence on an unfinished run: why it ended, or how far it is."""
    last, total = metrics[-1]["round"], config.get("num_rounds")
    if diverged(metrics[-1]):
        return (
            f"This run diverged in round {last} of {total}: an upload or the model "
            "holds NaN or infinity."
        )
    return (
        f"This run has not finished: this page shows {last} of {total} rounds. Go on "
        "with the same command and --resume."
    )


def _existing(folder: str | Path) -> Path:
    path = Path(folder)
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder")
    return path


def _text(path: Path) -> str:
    if not path.is_file():
        raise ValueError(
            f"{path.parent} has no {path.name}: it is not the folder of a run or sweep"
        )
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error.reason}") from None


def _hashes(texts: dict[str, str]) -> dict[str, str]:
    return {
        name: hashlib.sha256(text.encode("utf-8")).hexdigest()
        for name, text in texts.items()
    }


def _parse(where: object, text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{where} is not valid JSON: {error}") from None


def _object(where: object, text: str) -> Row:
    value = _parse(where, text)
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a JSON object, got {type(value).__name__}")
    return value


def _rows(path: Path, text: str, *, may_be_empty: bool = False) -> list[Row]:
    rows = [
        _object(f"{path} line {index}", line)
        for index, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if not rows and not may_be_empty:
        raise ValueError(f"{path} is empty: no round has been recorded")
    return rows


def _cells(path: Path) -> list[Row]:
    """The cells' summaries; none where no mechanism has finished."""
    if not path.is_file():
        return []
    cells = _parse(path, _text(path))
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ValueError(f"{path} must be a JSON list of objects")
    return cells


_WHOLE = {"round", "client", "seed"}  # by which rows are sorted


def _require(path: Path, rows: list[Row], names: Sequence[str]) -> None:
    for index, row in enumerate(rows, start=1):
        if missing := [name for name in names if name not in row]:
            raise ValueError(f"{path} row {index} has no field {missing[0]!r}")
        for name in _WHOLE & row.keys():
            if type(row[name]) is not int:
                raise ValueError(f"{path} row {index}: {name} is no whole number")
