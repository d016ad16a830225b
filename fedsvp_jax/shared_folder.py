"""A run's folder and checkpoints as several processes see them: one writes, all know.

The folder need not be visible to any process but the first.
"""

import os
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from fedsvp_jax import processes
from fedsvp_jax.checkpoint import Checkpointer
from fedsvp_jax.run_folder import RunFolder, write_json


class SharedFolder:
    """`RunFolder` of process 0; every process makes the same calls."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = RunFolder(path)
        self.path = self._folder.path
        self._held: dict[str, list[dict[str, Any]]] = {}

    def start(self, config: dict[str, Any], *, resume: bool) -> None:
        """As `RunFolder.start`; what process 0 refuses, all refuse."""
        processes.from_first(lambda: self._folder.start(config, resume=resume))

    def append(self, name: str, rows: list[dict[str, Any]]) -> None:
        """As `RunFolder.append`."""
        if processes.is_first():
            self._folder.append(name, rows)

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

    def keep_rounds(
        self,
        name: str,
        done: int,
        *,
        of: Callable[[dict[str, Any]], bool] = lambda row: True,
        every: bool = True,
    ) -> None:
        """As `RunFolder.keep_rounds`."""
        processes.from_first(
            lambda: self._folder.keep_rounds(name, done, of=of, every=every)
        )

    def rows(self, name: str) -> list[dict[str, Any]]:
        """As `RunFolder.rows`."""
        return processes.from_first(lambda: self._folder.rows(name))

    def write(self, name: str, content: Any) -> None:
        """Writes a JSON file whole or not at all."""
        if processes.is_first():
            write_json(self.path / name, content)


class SharedCheckpointer:
    """`Checkpointer` of process 0, which sends what it restores to the others."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._own = Checkpointer(folder) if processes.is_first() else None

    def save(self, round_num: int, state: Any) -> None:
        """As `Checkpointer.save`; parts that other processes hold are gathered."""
        whole = processes.to_host(state)
        if self._own is not None:
            self._own.save(round_num, whole)

    def restore(self, like: Any) -> tuple[Any, int] | None:
        """As `Checkpointer.restore`: process 0 reads, and sends what it read."""
        saved: Any = None

        def read() -> int | None:
            nonlocal saved
            assert self._own is not None
            found = self._own.restore(like)
            if found is None:
                return None
            saved, round_num = found
            return round_num

        round_num = processes.from_first(read)
        if round_num is None:
            return None
        if saved is None:  # only its shapes count here
            saved = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like)
        return processes.arrays_from_first(saved), round_num

    def close(self) -> None:
        """As `Checkpointer.close`."""
        if self._own is not None:
            self._own.close()
