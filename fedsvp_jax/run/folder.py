"""A run's folder: json files that a killed run leaves readable.

Lines are appended and flushed a call at a time; `keep_rounds` drops the lines that
a checkpoint does not know of, so a resumed run's files equal an uninterrupted
run's byte for byte. Whole files are written beside their place and renamed.
"""

import contextlib
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from fedsvp_jax.devices import processes

BESIDE = ".tmp"  # ends the name of a file that is not whole yet
PLANNED = "partition.svg"  # what a dry run draws


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


class WriteError(OSError):
    """A file of a run cannot be written; the message says how to go on.

    Attributes:
      path: the file or folder.
      reason: what the operating system says.
    """

    def __init__(
        self, path: pathlib.Path, reason: str, kept: str = "what was saved before"
    ) -> None:
        super().__init__(
            f"{path} cannot be written ({reason}); {kept} is kept: mend this, then go "
            "on with the same command and --resume"
        )
        self.path = path
        self.reason = reason


def replace_file(path: pathlib.Path, *parts: bytes) -> None:
    """Writes the parts, one after another, as the whole file or not at all.

    Raises:
      WriteError: it cannot be written; what was there is as it was.
    """
    beside = path.with_name(path.name + BESIDE)
    try:
        with open(beside, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise WriteError(path, error.strerror or str(error)) from error


def write_json(path: pathlib.Path, content: Any) -> None:
    """Writes the file whole or not at all.

    Raises:
      WriteError: it cannot be written; what was there is as it was.
    """
    text = json.dumps(plain(content), indent=2, allow_nan=False) + "\n"
    replace_file(path, text.encode())


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """What was changed, entry by entry: `versions.jax is 1 and was 2`."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in sorted({*old, *new}):
            inner = f"{name}.{key}" if name else key
            found += differences(old.get(key), new.get(key), inner)
        return found
    return [f"{name} is {new!r} and was {old!r}"] if old != new else []


def _asks_for_more(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether nothing differs but the number of rounds, which is larger."""
    before, rounds = old.get("num_rounds"), new.get("num_rounds")
    if not isinstance(before, int) or not isinstance(rounds, int):
        return False
    return rounds > before and not differences(old | {"num_rounds": rounds}, new)


class RunFolder:
    """The folder of one run or sweep."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)

    def start(
        self,
        config: dict[str, Any],
        *,
        resume: bool,
        longer: Callable[[int], None] | None = None,
    ) -> None:
        """Creates the folder, or checks that it holds the run to go on with.

        A folder without config.json in which nothing else lies (a run killed before
        its first file was whole, or a dry run's picture) is started, with `resume` or
        not.

        Args:
          config: the content of config.json.
          resume: go on with the run that the folder holds.
          longer: called with the rounds of that run where `config` asks for more, and
            for nothing else that is new; it refuses that, or config.json then tells
            the new number. None: never more.

        Raises:
          ValueError: when the folder holds a run and `resume` is false, or holds
            a run of another configuration; the first differences are named.
          OSError: the folder cannot be made or written.
        """
        file = self.path / "config.json"
        if file.exists():
            if not resume:
                raise ValueError(
                    f"output_dir {self.path} already holds a run; give another folder "
                    "or continue it with --resume"
                )
            try:
                old = json.loads(file.read_bytes())
            except ValueError as error:
                raise ValueError(
                    f"cannot resume {self.path}: {file} is damaged ({error})"
                ) from error
            changed = differences(old, plain(config))
            if changed and longer is not None and _asks_for_more(old, plain(config)):
                longer(old["num_rounds"])
                (self.path / "summary.json").unlink(missing_ok=True)
                write_json(file, config)
            elif changed:
                raise ValueError(f"cannot resume {self.path}: {'; '.join(changed[:3])}")
            return
        unfinished = {file.name + BESIDE, PLANNED}
        if self.path.exists() and (
            not self.path.is_dir()
            or any(path.name not in unfinished for path in self.path.iterdir())
        ):
            raise ValueError(
                f"output_dir {self.path} exists and holds no run; give a new folder"
            )
        new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_json(file, config)
        except OSError as error:
            if new:
                with contextlib.suppress(OSError):
                    self.path.rmdir()
            reason = getattr(error, "reason", error.strerror)
            raise OSError(
                f"output_dir {self.path} cannot be written ({reason}); give another "
                "folder"
            ) from error

    def append(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        """Appends json lines, all or none, and hands them to the operating system.

        Raises:
          WriteError: they cannot be written; the file is as it was.
        """
        lines = "".join(json.dumps(plain(r), allow_nan=False) + "\n" for r in rows)
        path, left = self.path / name, memoryview(lines.encode())
        try:
            with open(path, "ab", buffering=0) as file:
                before = file.tell()
                try:
                    while left:
                        left = left[file.write(left) :]
                    os.fsync(file.fileno())
                except OSError:
                    os.truncate(path, before)
                    raise
        except OSError as error:
            raise WriteError(path, error.strerror or str(error)) from error

    def keep_rounds(
        self,
        name: str,
        done: int,
        *,
        of: Callable[[dict[str, Any]], bool] = lambda row: True,
        every: bool = True,
        as_kept: Callable[[dict[str, Any]], dict[str, Any]] = lambda row: row,
    ) -> None:
        """Drops the lines of rounds after `done`, and a torn last line.

        Args:
          name: of a json-lines file whose rows name their `round`.
          done: rounds that a checkpoint knows of.
          of: the rows that are meant; all others stay.
          every: each round has a row, or else something changed the file.
          as_kept: what becomes of a row of round `done` that is meant.

        Raises:
          ValueError: a line is damaged, or `every` and a round has none.
        """
        file = self.path / name
        content = file.read_bytes() if file.exists() else b""
        kept, found = [], set()
        for number, line in enumerate(content.splitlines(keepends=True), start=1):
            if not line.endswith(b"\n"):
                break
            try:
                row = json.loads(line)
                meant, round_num = of(row), row["round"]
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"{file}, line {number}, is damaged; put a copy of the file back, "
                    "or start again in a new folder (nothing was changed)"
                ) from error
            if not meant or round_num < done:
                kept.append(line)
            elif round_num == done:
                now = as_kept(row)
                changed = now != row
                kept.append((json.dumps(now) + "\n").encode() if changed else line)
            if meant:
                found.add(round_num)
        missing = set(range(1, done + 1)) - found
        if every and missing:
            raise ValueError(
                f"{file} lacks round {min(missing)}, and the checkpoint holds {done} "
                "rounds; put a copy of the file back, or start again in a new folder "
                "(nothing was changed)"
            )
        if b"".join(kept) != content:
            replace_file(file, b"".join(kept))

    def drop_torn_line(self, name: str) -> None:
        """Drops a last line that a killed run left unfinished."""
        file = self.path / name
        content = file.read_bytes() if file.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            replace_file(file, whole)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The lines of a json-lines file; none when it is not there."""
        file = self.path / name
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_text().splitlines()]


class SharedFolder(RunFolder):
    """`RunFolder` of process 0; every process makes the same calls."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._held: dict[str, list[dict[str, Any]]] = {}

    def start(self, config: dict[str, Any], **how: Any) -> None:
        """As `RunFolder.start`; what process 0 refuses, all refuse."""
        processes.from_first(partial(super().start, config, **how))

    def append(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        """As `RunFolder.append`."""
        if processes.is_first():
            super().append(name, rows)

    def hold(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        """Keeps lines for `write_held`."""
        self._held.setdefault(name, []).extend(rows)

    def write_held(self) -> None:
        """Appends what is held; what cannot be written is not tried again.

        Raises:
          WriteError: as `RunFolder.append`.
        """
        held, self._held = self._held, {}
        for name, rows in held.items():
            self.append(name, rows)

    def keep_rounds(self, name: str, done: int, **how: Any) -> None:
        """As `RunFolder.keep_rounds`."""
        processes.from_first(partial(super().keep_rounds, name, done, **how))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """As `RunFolder.rows`."""
        return processes.from_first(partial(super().rows, name))

    def write(self, name: str, content: Any) -> None:
        """Writes a JSON file whole or not at all."""
        if processes.is_first():
            write_json(self.path / name, content)
