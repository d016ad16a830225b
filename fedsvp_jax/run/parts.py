"""The parts of a sweep that ran apart, joined to the folder of the whole sweep."""

import pathlib
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from flax import serialization

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core.files import (
    AnyPath,
    Record,
    read_json,
    replace_file,
    sha256,
    write_json,
)

from . import sweep
from .folder import RunFolder, differences


def merge(folders: Sequence[AnyPath], output_dir: AnyPath) -> None:
    """Joins the folders of all parts of a sweep to the folder of the whole.

    config.json, results.jsonl and cells.json have the bytes that the sweep writes in
    one process: the same cells and rounds in the same order. There is one exception.
    Where `total_epsilon` ends the cells of a mechanism in different rounds, one process
    also writes rows without uploads for the cells that wait for the last one.
    With the parts' checkpoints, which are copied, the whole sweep grows as any other.

    Args:
      folders: of the parts 1/N to N/N, in any order.
      output_dir: a new folder, or that of the same merge, which is written anew.

    Raises:
      ValueError: a folder is no finished part of a sweep, its files are not those that
        the sweep wrote, they are not all parts of one sweep, or `output_dir` holds
        anything else; nothing was written.
      OSError: the folder cannot be written.
    """
    parts = sorted(map(_read, folders))
    if not parts:
        raise ValueError("name the folders of the parts of a sweep, got none")
    whole = parts[0].of_sweep
    for part in parts:
        if changed := differences(whole, part.of_sweep):
            raise ValueError(
                f"{part.path} is a part of another sweep than {parts[0].path}, or of "
                f"another division of it: {'; '.join(changed)}"
            )
    numbers = [part.number for part in parts]
    expected = [*range(1, whole["part"] + 1)]
    if numbers != expected:
        raise ValueError(
            f"name the folder of each of the {len(expected)} parts of the sweep once, "
            f"got part {', '.join(map(str, numbers))}; "
            f"missing: {sorted({*expected} - {*numbers}) or 'none'}"
        )
    states = [state for part in parts for state in _states(part)]
    rows = [(part.path / sweep.ROWS).read_bytes() for part in parts]
    cells = [cell for part in parts for cell in part.cells]
    merged = RunFolder(output_dir)
    merged.start(
        whole | {"part": None}, resume=False, joined=[part.config for part in parts]
    )
    with merged:
        replace_file(merged.path / sweep.ROWS, *rows)
        sweep.sort_rows(merged, map(sweep.cell_key, cells))
        write_json(merged.path / "cells.json", cells)
        programs = sweep.programs(ExperimentConfig(), merged.path, merged.history)
        for (checkpointer, _), state in zip(programs, states, strict=True):
            checkpointer.save(*state)


class _Part(NamedTuple):
    """A folder, which has finished I/N of a sweep.

    Attributes:
      number: I.
      path: of the folder.
      config: its config.json.
      of_sweep: the same with N as its `part`.
      cells: its cells.json.
    """

    number: int
    path: pathlib.Path
    config: Record
    of_sweep: Record
    cells: list[Record]


def _states(part: _Part) -> list[tuple[int, Any]]:
    """The rounds and the last state of each program, to which the files belong.

    Raises:
      ValueError: rows or cells are not those that the sweep wrote.
      OSError: a file is missing.
    """
    if not (part.path / sweep.SUM).exists():
        raise ValueError(
            f"{part.path} lacks {sweep.SUM}, by which edited rows are refused: copy "
            "the whole folder, checkpoints/ too"
        )
    states = [
        (done, serialization.msgpack_restore(content))
        for checkpointer, _ in sweep.programs(
            ExperimentConfig(), part.path, [part.config]
        )
        for content, done in filter(None, [checkpointer.newest()])
    ]
    rows = (part.path / sweep.ROWS).read_bytes().splitlines(keepends=True)
    written = sum(state["rows"][sweep.ROWS] for _, state in states)
    changed = [sweep.ROWS] * (sum(map(zlib.crc32, rows)) != written)
    if (part.path / sweep.SUM).read_text() != sha256(part.path / "cells.json"):
        changed += ["cells.json"]
    if changed:
        raise ValueError(
            f"{part.path / changed[0]} is not what the sweep of these checkpoints "
            "wrote; copy the whole folder again, or run this part in a new one"
        )
    return states


def _read(folder: AnyPath) -> _Part:
    """A part.

    Raises:
      ValueError, OSError: the folder is no finished part of a sweep.
    """
    path = pathlib.Path(folder)
    config = read_json(path / "config.json")
    if not isinstance(config, dict) or not config.get("part"):
        raise ValueError(f"{path} is not the folder of a sweep started with --part=I/N")
    plan = sweep.SweepPlan.recorded(config)
    number, parts = plan.part_of()
    num_cells = sum(map(len, plan.programs(ExperimentConfig()).values()))
    file = path / "cells.json"
    cells = read_json(file) if file.exists() else []
    if len(cells) != num_cells:
        raise ValueError(
            f"part {config['part']} in {path} has finished {len(cells)} of its "
            f"{num_cells} cells; run its command again with --resume"
        )
    return _Part(number, path, config, config | {"part": parts}, cells)
