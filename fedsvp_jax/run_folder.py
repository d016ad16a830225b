"""A run's folder: json files that a killed run leaves readable.

Lines are appended and flushed a call at a time; `resume_at` drops the lines that
a checkpoint does not know of, so a resumed run's files equal an uninterrupted
run's byte for byte. Whole files are written beside their place and renamed.
"""

import json
import math
import os
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Numpy to plain Python; float32 by its shortest form, non-finite to None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.float32):
        return float(str(value)) if np.isfinite(value) else None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: pathlib.Path, content: Any) -> None:
    """Writes the file whole or not at all."""
    text = json.dumps(plain(content), indent=2, allow_nan=False) + "\n"
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(text)
    os.replace(beside, path)


class RunFolder:
    """The folder of one run or sweep."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)

    def start(self, config: dict[str, Any], *, resume: bool) -> None:
        """Creates the folder, or checks that it holds the run to go on with.

        Raises:
          ValueError: when the folder holds a run and `resume` is false, or holds
            a run of another configuration; the first differences are named.
        """
        file = self.path / "config.json"
        if file.exists():
            if not resume:
                raise ValueError(
                    f"output_dir {self.path} already holds a run; give another folder "
                    "or go on with it by --resume"
                )
            old, new = json.loads(file.read_text()), plain(config)
            names = sorted({*old, *new})
            changed = [n for n in names if old.get(n) != new.get(n)]
            if changed:
                what = "; ".join(
                    f"{n} is {new.get(n)!r} and was {old.get(n)!r}" for n in changed[:3]
                )
                raise ValueError(f"cannot resume {self.path}: {what}")
            return
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise ValueError(
                f"output_dir {self.path} exists and holds no run; give a new folder"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(file, config)

    def append(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        """Appends json lines and hands them to the operating system."""
        lines = "".join(json.dumps(plain(r), allow_nan=False) + "\n" for r in rows)
        with open(self.path / name, "a") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    def keep_rows(self, name: str, keep: Any) -> None:
        """Drops the lines for which `keep(row)` is false, and a torn last line."""
        file = self.path / name
        if not file.exists():
            return
        kept = []
        for line in file.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                break
            if keep(json.loads(line)):
                kept.append(line)
        beside = file.with_name(name + ".tmp")
        beside.write_text("".join(kept))
        os.replace(beside, file)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The lines of a json-lines file; none when it is not there."""
        file = self.path / name
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_text().splitlines()]
