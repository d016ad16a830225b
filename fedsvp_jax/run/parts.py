"""The parts of a sweep that ran apart, joined to the folder of the whole sweep."""

import pathlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

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
from fedsvp_jax.run import sweep
from fedsvp_jax.run.folder import RunFolder, differences


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
    paths = [pathlib.Path(folder) for folder in folders]
    if not paths:
        raise ValueError("name the folders of the parts of a sweep, got none")
    first, whole = paths[0], _read(paths[0])[1]
    parts: list[tuple[int, pathlib.Path, list[Record]]] = []
    for path in paths:
        number, config, cells = _read(path)
        if changed := differences(whole, config):
            raise ValueError(
                f"{path} is a part of another sweep than {first}, or of another "
                f"division of it: {'; '.join(changed)}"
            )
        parts.append((number, path, cells))
    parts.sort(key=lambda part: part[0])
    numbers = [number for number, *_ in parts]
    if numbers != [*range(1, whole["part"] + 1)]:
        raise ValueError(
            f"name the folder of each of the {whole['part']} parts of the sweep once, "
            f"got part {', '.join(map(str, numbers))}"
        )
    configs = [read_json(path / "config.json") for _, path, _ in parts]
    states: list[tuple[int, Any]] = []
    rows = b""
    for (_, path, _), config in zip(parts, configs, strict=True):
        of_part = [*_states(path, config)]
        rows += _rows(path, of_part)
        states += of_part
    merged = RunFolder(output_dir)
    merged.start(whole | {"part": None}, resume=False, joined=configs)
    cells = [cell for *_, cells in parts for cell in cells]
    with merged:
        replace_file(merged.path / sweep.ROWS, rows)
        sweep.sort_rows(merged, cells)
        write_json(merged.path / "cells.json", cells)
        programs = sweep.programs(ExperimentConfig(), merged)
        for (checkpointer, _), state in zip(programs, states, strict=True):
            checkpointer.save(*state)


def _states(path: pathlib.Path, config: Record) -> Iterator[tuple[int, Any]]:
    """The rounds and the last state of each program of a part.

    Raises:
      ValueError: one is missing or damaged.
    """
    folder = RunFolder(path)
    folder.history = [config]
    for checkpointer, _ in sweep.programs(ExperimentConfig(), folder):
        if (newest := checkpointer.newest()) is None:
            raise ValueError(
                f"{path} lacks a checkpoint, with which its rows are compared; copy "
                "the whole folder, or run its command again with --resume"
            )
        content, done = newest
        yield done, serialization.msgpack_restore(content)


def _rows(path: pathlib.Path, states: Sequence[tuple[int, Any]]) -> bytes:
    """The rows of a part, which are those that its states stand for.

    Raises:
      ValueError: rows or cells are not those that the sweep wrote.
      OSError: a file is missing.
    """
    file, cells = path / sweep.ROWS, path / "cells.json"
    rows = file.read_bytes()
    sums = map(zlib.crc32, rows.splitlines(keepends=True))
    if sum(sums) != sum(state["rows"][sweep.ROWS] for _, state in states):
        raise ValueError(
            f"{file} has other rows than were written; put a copy of the file back, or "
            "run this part again in a new folder"
        )
    if (path / sweep.SUM).read_text() != sha256(cells):
        raise ValueError(
            f"{cells} is not as the sweep wrote it; run its command again with "
            "--resume, which writes it anew"
        )
    return rows


def _read(
    path: pathlib.Path,
) -> tuple[int, Record, list[Record]]:
    """I of I/N, the sweep's config with N as its `part`, and the part's cells.

    Raises:
      ValueError, OSError: the folder is no finished part of a sweep.
    """
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
    return number, config | {"part": parts}, cells
