"""A run's folder: json files that a killed run leaves readable, one process at a time.

Lines are appended and flushed a call at a time; `keep_rounds` drops the lines that
a checkpoint does not know of, so a resumed run's files equal an uninterrupted
run's byte for byte.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import platform
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fedsvp_jax.core.files import (
    BESIDE,
    AnyPath,
    Record,
    WriteError,
    make_folder,
    plain,
    read_json,
    replace_file,
    sync,
    write_json,
)

LOCK = ".lock"  # of the process that writes the folder
_REMEDY = (
    "put a copy of the file back, or start again in a new folder (nothing was changed)"
)
# The config.json that a sweep had before it grew, or those of the parts it is made of.
_FORMER = "checkpoints/former.json"


def identity(config: Record) -> str:
    """A sum of a config.json, by which a run's checkpoints are its own.

    Of a config that differs in the number of rounds alone it is the same.
    """
    settings = {name: value for name, value in config.items() if name != "num_rounds"}
    text = json.dumps(plain(settings), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """The changes, entry by entry: `versions.jax is 1 and was 2`."""
    if isinstance(old, dict) and isinstance(new, dict):
        changes = []
        for key in sorted({*old, *new}):
            inner = f"{name}.{key}" if name else key
            changes += differences(old.get(key), new.get(key), inner)
        return changes
    return [f"{name} is {new!r} and was {old!r}"] if old != new else []


class RunFolder(contextlib.AbstractContextManager["RunFolder"]):
    """The folder of one run or sweep; as a context, it frees the folder at its end."""

    def __init__(self, path: AnyPath) -> None:
        self._lock: int | None = None  # descriptor of the locked file
        self.path = pathlib.Path(path)
        # From `start` on: of the run, and config.json as it was before a sweep grew, or
        # of its parts, and as it is.
        self.identity = ""
        self.history: list[Record] = []

    def __exit__(self, *error: object) -> None:
        self.free()

    def _reserve(self) -> None:
        """Keeps other processes out until `free`, or the end of this process.

        Raises:
          ValueError: another process writes the folder.
          OSError: the lock cannot be written.
        """
        file = self.path / LOCK
        lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            writer = os.read(lock, 1000).decode(errors="replace") or "another process"
            os.close(lock)
            raise ValueError(
                f"output_dir {self.path} is being written by {writer}; wait until it "
                "has ended, or give another folder"
            ) from error
        if not file.exists() or not os.path.samestat(os.fstat(lock), file.stat()):
            os.close(lock)  # its last owner removed it in the meantime
            self._reserve()
            return
        self._lock = lock
        os.truncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {platform.node()}".encode())

    def free(self) -> None:
        """Lets other processes write the folder."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with contextlib.suppress(OSError):
                (self.path / LOCK).unlink()
            os.close(lock)

    __del__ = free

    def start(
        self,
        config: Record,
        *,
        resume: bool,
        secrets: Mapping[str, bytes] = MappingProxyType({}),
        refused: Callable[[Record, Record], list[str]] = differences,
        joined: Sequence[Record] = (),
    ) -> None:
        """Creates the folder, or checks that it holds the run to go on with.

        A folder without config.json in which nothing else lies (a run killed before
        its first file was whole) is started, with `resume` or not.

        Args:
          config: the content of config.json.
          resume: whether to go on with a run.
          secrets: files by name, for the owner's eyes, which a new run gets before
            config.json. This says which they are, so that no other ones go on.
          refused: the changes from a former config.json to this one that forbid to go
            on; none where a sweep becomes larger and its cells stay as they are.
          joined: config.json of each part that the sweep is made of. A folder that was
            made of the same parts is taken again.

        Raises:
          ValueError: another process writes the folder, or it holds a run and
            `resume` is false, or it holds a run of another configuration; the
            differences are named.
          OSError: the folder cannot be made or written.
        """
        file, new = self.path / "config.json", not self.path.exists()
        names = (file.name, *secrets)
        unfinished = {LOCK, *secrets, *(name + BESIDE for name in names)}
        if not new:
            # Looked at once: another process may write config.json just now.
            present = os.listdir(self.path) if self.path.is_dir() else ["a file"]
            if file.name not in present and not unfinished.issuperset(present):
                raise ValueError(
                    f"output_dir {self.path} exists and holds no run; give a new folder"
                )
        try:
            make_folder(self.path)
            if self._lock is None:
                self._reserve()
            earlier = self.path / _FORMER
            self.history = read_json(earlier) if earlier.exists() else []
            if not file.exists():
                for name, content in secrets.items():
                    replace_file(self.path / name, content, mode=0o600)
                write_json(file, config)
                self._note_former(joined)
            elif not resume and (not joined or self.history != joined):
                raise ValueError(
                    f"output_dir {self.path} already holds a run; give another folder, "
                    "or continue it by its own command with --resume (in Python "
                    "options=run.Options(resume=True))"
                )
            else:
                former, new_config = read_json(file), plain(config)
                if not differences(former, new_config):
                    config = former
                elif changed := refused(former, new_config):
                    raise ValueError(
                        f"cannot resume {self.path}, other settings need another "
                        f"folder: {'; '.join(changed)}"
                    )
                else:
                    self._note_former([former])
                    write_json(file, config)
        except OSError as error:
            self.free()
            if new:
                with contextlib.suppress(OSError):
                    self.path.rmdir()
            reason = getattr(error, "reason", error.strerror)
            raise OSError(
                f"output_dir {self.path} cannot be written ({reason}); give another "
                "folder"
            ) from error
        except ValueError:
            self.free()
            raise
        self.identity = identity(config)
        self.history.append(config)

    def _note_former(self, configs: Sequence[Record]) -> None:
        """Adds each config.json, if any, to the former ones."""
        self.history += configs
        if configs:
            file = self.path / _FORMER
            make_folder(file.parent)
            write_json(file, self.history)

    def append(self, name: str, rows: Iterable[Record]) -> int:
        """Appends json lines, all or none, and hands them to the operating system.

        Returns:
          The sum of their CRC-32.

        Raises:
          WriteError: they cannot be written; the file is as it was.
        """
        lines = [
            (json.dumps(plain(row), allow_nan=False) + "\n").encode() for row in rows
        ]
        path, rest = self.path / name, memoryview(b"".join(lines))
        try:
            with open(path, "ab", buffering=0) as file:
                before = file.tell()
                try:
                    while rest:
                        rest = rest[file.write(rest) :]
                    os.fsync(file.fileno())
                    if not before:
                        sync(path.parent)  # the file's name
                except OSError:
                    os.truncate(path, before)
                    raise
        except OSError as error:
            raise WriteError(path, error) from error
        return sum(map(zlib.crc32, lines))

    def keep_rounds(
        self,
        name: str,
        done: int,
        *,
        is_ours: Callable[[Record], bool],
        checksum: int = 0,
    ) -> None:
        """Drops the lines of rounds after `done`, and a torn last line.

        Args:
          name: of a json-lines file whose rows name their `round`.
          done: rounds that a checkpoint knows of.
          is_ours: whether a row is of this session; others stay.
          checksum: of this session's lines up to `done`: the sum of what `append`
            gave, which follows no order.

        Raises:
          ValueError: a line is damaged, changed, missing, out of order or there twice.
        """
        file = self.path / name
        content = file.read_bytes() if file.exists() else b""
        lines, of_session, last = [], [], 0
        for number, line in enumerate(content.splitlines(keepends=True), start=1):
            if not line.endswith(b"\n"):
                break
            try:
                row = json.loads(line)
                round_num, ours = row["round"], is_ours(row)
                if ours and round_num < last:
                    raise ValueError(round_num)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise ValueError(
                    f"{file}, line {number}, is damaged or out of order; {_REMEDY}"
                ) from error
            if ours:
                last = round_num
            if not ours or round_num <= done:
                lines.append(line)
                of_session += [line] * ours
        if sum(map(zlib.crc32, of_session)) != checksum:
            raise ValueError(
                f"{file} has other rows than were written up to round {done}; {_REMEDY}"
            )
        if b"".join(lines) != content:
            replace_file(file, b"".join(lines))

    def rows(self, name: str) -> list[Record]:
        """The lines of a json-lines file; none when it is not there."""
        file = self.path / name
        if not file.exists():
            return []
        return [json.loads(line) for line in file.read_text().splitlines()]
