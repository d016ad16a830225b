"""Read the files of a run or a sweep.

Reports are made from files alone, so that a page can be rebuilt years later.
Every error is a ValueError of one sentence: the file, the line and what is wrong.
"""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax.core.files import AnyPath, Record
from fedsvp_jax.run.records import score_summary

RUN_FILES = ("config.json", "metrics.jsonl", "clients.jsonl", "summary.json")
SWEEP_FILES = ("config.json", "results.jsonl")
_OF_SUMMARY = ("epsilon_spent", "status", "adversary", "relation", "guarantees")
_NO_ROUND = "no round has been recorded"


@dataclasses.dataclass(frozen=True)
class RunFiles:
    """The files of one run, without its checkpoints and timings."""

    config: Record
    metrics: list[Record]  # one row per round, sorted by round
    clients: list[Record]  # one row per upload, sorted by round, then client
    summary: Record  # of an unfinished run, computed from its rows
    unfinished: bool  # or diverged, after the last of `metrics`
    sha256: dict[str, str]  # file name -> hash of its bytes

    @property
    def results(self) -> list[Record]:
        """The rounds as a sweep of this run alone holds them."""
        return [self._as_cell(row) for row in self.metrics]

    @property
    def cells(self) -> list[Record]:
        """The summary as such a sweep holds it."""
        return [self._as_cell(self.summary)]

    def _as_cell(self, row: Record) -> Record:
        names = ("mechanism", "epsilon", "total_epsilon", "seed", "secret_noise")
        return row | {name: self.config.get(name) for name in names}


@dataclasses.dataclass(frozen=True)
class SweepFiles:
    """The files of one sweep, without its checkpoints and timings."""

    config: Record
    results: list[Record]  # one row per cell and round
    cells: list[Record]  # one summary per cell of the finished mechanisms
    sha256: dict[str, str]


def read_run(run_dir: AnyPath) -> RunFiles:
    """Reads a run's folder; an unfinished run is read up to its last row.

    Raises:
      ValueError: a file is missing, damaged or empty, or the folder is a sweep's.
    """
    folder = Path(run_dir)
    ended = (folder / "summary.json").is_file()
    names = RUN_FILES if ended else RUN_FILES[:-1]
    texts = {name: _text(folder / name) for name in names}
    if not ended:  # a killed run may leave a torn last line
        for name in names[1:]:
            texts[name] = texts[name][: texts[name].rfind(b"\n") + 1]

    def rows(name: str, *fields: str) -> list[Record]:
        unsorted = _rows(folder / name, texts[name], fields)
        return sorted(unsorted, key=lambda row: (row["round"], row.get("client")))

    config = _parse(folder / "config.json", texts["config.json"], dict)
    metrics = rows("metrics.jsonl", "round", "test_accuracy")
    if not metrics:
        raise ValueError(f"{folder / 'metrics.jsonl'} is empty: {_NO_ROUND}")
    if ended:
        summary = _parse(folder / "summary.json", texts["summary.json"], dict)
        _require(folder / "summary.json", summary, _OF_SUMMARY)
    else:
        summary = metrics[-1] | score_summary(metrics)
    return RunFiles(
        config=config,
        metrics=metrics,
        clients=rows("clients.jsonl", "round", "client", "noise_std"),
        summary=summary,
        unfinished=not ended,
        sha256=_hashes(texts),
    )


def read_sweep(sweep_dir: AnyPath) -> SweepFiles:
    """Reads a sweep's folder; an unfinished sweep is read up to its last round.

    Raises:
      ValueError: a file is missing, damaged or empty.
    """
    folder = Path(sweep_dir)
    texts = {name: _text(folder / name) for name in SWEEP_FILES}
    fields = ("mechanism", "epsilon", "seed", "round", "test_accuracy")
    results = _rows(folder / "results.jsonl", texts["results.jsonl"], fields)
    if not results:
        raise ValueError(f"{folder / 'results.jsonl'} is empty: {_NO_ROUND}")
    cells = folder / "cells.json"
    return SweepFiles(
        config=_parse(folder / "config.json", texts["config.json"], dict),
        results=results,
        cells=_parse(cells, _text(cells), list) if cells.is_file() else [],
        sha256=_hashes(texts),
    )


Files = RunFiles | SweepFiles


def read_folder(folder: AnyPath) -> Files:
    """Reads a run's folder or a sweep's; errors as of the two."""
    is_sweep = (Path(folder) / "results.jsonl").is_file()
    return read_sweep(folder) if is_sweep else read_run(folder)


def read_all(folders: Sequence[AnyPath]) -> dict[str, Files]:
    """Several folders' files by a short name: the path relative to their common parent.

    Raises:
      ValueError: a run that has not ended, a damaged file.
    """
    paths = list(dict.fromkeys(Path(os.path.abspath(folder)) for folder in folders))
    common = os.path.commonpath([path.parent for path in paths])
    files = {os.path.relpath(path, common): read_folder(path) for path in paths}
    for path, result in zip(paths, files.values(), strict=True):
        if isinstance(result, RunFiles) and result.unfinished:
            raise ValueError(f"{path} cannot be compared: it has not finished")
    return files


def number(value: float | None) -> float | None:
    """The number as a float; None for null, NaN and infinities."""
    return float(value) if value is not None and math.isfinite(value) else None


def _text(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError(
            f"{path.parent} has no {path.name}: a run's folder has "
            f"{', '.join(RUN_FILES[:-1])}, a sweep's {', '.join(SWEEP_FILES)}"
        )
    return path.read_bytes()


def _hashes(texts: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}


def _parse(where: object, text: bytes, kind: type) -> Any:
    """The JSON value, of the kind dict or list."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # of its bytes too
        raise ValueError(f"{where} is not valid JSON: {error}") from None
    if not isinstance(value, kind):
        raise ValueError(f"{where} must be a JSON {kind.__name__}, got {value!r:.40}")
    return value


def _require(where: object, row: Record, fields: Sequence[str]) -> None:
    if missing := [name for name in fields if name not in row]:
        raise ValueError(f"{where} has no field {missing[0]!r}")


_WHOLE = {"round", "client", "seed"}  # by which rows are sorted


def _rows(path: Path, text: bytes, fields: Sequence[str]) -> list[Record]:
    """The objects of a file of lines, each with these fields."""
    rows = []
    for index, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        row = _parse(f"{path} line {index}", line, dict)
        _require(f"{path} line {index}", row, fields)
        for name in _WHOLE & row.keys():
            if type(row[name]) is not int:
                raise ValueError(f"{path} line {index}: {name} is no whole number")
        rows.append(row)
    return rows
