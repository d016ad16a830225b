"""The parts of a sweep that ran apart, joined to the folder of the whole sweep."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core.files import read_json, write_json
from fedsvp_jax.run.folder import RunFolder, differences
from fedsvp_jax.run.sweep import SweepPlan


@dataclasses.dataclass(frozen=True)
class _Part:
    """A finished part of a sweep."""

    path: pathlib.Path
    number: int  # I of I/N
    parts: int  # N
    config: dict[str, Any]  # of the whole sweep
    cells: list[dict[str, Any]]


def merge(
    folders: Sequence[str | os.PathLike[str]], output_dir: str | os.PathLike[str]
) -> None:
    """Joins the folders of all parts of a sweep to the folder of the whole.

    config.json, results.jsonl and cells.json have the bytes that the sweep writes in
    one process: the same cells and rounds in the same order. There is one exception.
    Where `total_epsilon` ends the cells of a mechanism in different rounds, one process
    also writes rows without uploads for the cells that wait for the last one.
    There are no checkpoints.

    Args:
      folders: of the parts 1/N to N/N, in any order.
      output_dir: a new folder.

    Raises:
      ValueError: a folder is no finished part of a sweep, they are not all parts of one
        sweep, or `output_dir` is not new; nothing was written.
      OSError: the folder cannot be written.
    """
    parts = sorted((_read(pathlib.Path(p)) for p in folders), key=lambda p: p.number)
    if not parts:
        raise ValueError("name the folders of the parts of a sweep, got none")
    first = parts[0]
    for part in parts[1:]:
        if changed := differences(first.config, part.config):
            raise ValueError(
                f"{part.path} is a part of another sweep than {first.path}: "
                + "; ".join(changed[:3])
            )
        if part.parts != first.parts:
            raise ValueError(
                f"{part.path} is one of {part.parts} parts, and {first.path} one of "
                f"{first.parts}; name the parts of one division"
            )
    numbers = [part.number for part in parts]
    for number in range(1, first.parts + 1):
        if numbers.count(number) != 1:
            how = "missing" if number not in numbers else "named twice"
            raise ValueError(f"part {number}/{first.parts} of the sweep is {how}")
    merged = RunFolder(output_dir)
    merged.start(first.config, resume=False)
    order = first.config["mechanisms"].index
    rows = [row for part in parts for row in RunFolder(part.path).rows("results.jsonl")]
    rows.sort(key=lambda row: (order(row["mechanism"]), row["round"]))
    with merged:
        merged.append("results.jsonl", rows)
        cells = [cell for part in parts for cell in part.cells]
        write_json(merged.path / "cells.json", cells)


def _read(path: pathlib.Path) -> _Part:
    """Raises ValueError unless the folder is a finished part of a sweep."""
    try:
        config = read_json(path / "config.json")
    except FileNotFoundError as error:
        raise ValueError(f"{path} has no config.json") from error
    if not isinstance(config, dict) or not config.get("part"):
        raise ValueError(f"{path} is not the folder of a sweep started with --part=I/N")
    names = {field.name for field in dataclasses.fields(SweepPlan)}
    plan = SweepPlan(**{name: config[name] for name in names & config.keys()})
    number, parts = plan.part_of()
    num_cells = sum(map(len, plan.programs(ExperimentConfig()).values()))
    file = path / "cells.json"
    cells = read_json(file) if file.exists() else []
    if len(cells) != num_cells:
        raise ValueError(
            f"part {config['part']} in {path} has finished {len(cells)} of its "
            f"{num_cells} cells; run its command again with --resume"
        )
    return _Part(path, number, parts, config | {"part": None}, cells)
