"""Checkpoints through orbax: what a run needs to go on to the same bits.

A checkpoint is a folder named by its round: `state/` as orbax writes it, and
`sha256.json`, the SHA-256 of every file in it. Orbax itself notices most damage of
its indices and none of the arrays' bytes (12 of 12 flipped bits were restored as
other numbers), hence the sums. The folder is written under another name, and renamed
when all of it is on the disk: a killed or failed save leaves the others whole.
"""

import functools
import hashlib
import json
import logging
import os
import pathlib
import re
import shutil
from typing import Any

import jax
import numpy as np

from fedsvp_jax.devices import processes
from fedsvp_jax.run.folder import WriteError, write_json

_KEPT = 2  # intact checkpoints that a save leaves
_SAVING = "saving"
_STATE, _SUMS = "state", "sha256.json"
_log = logging.getLogger(__name__)


class Checkpointer:
    """The newest checkpoints of one run."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder.absolute()
        self._intact: list[int] = []  # rounds restored from or saved, ascending

    @functools.cached_property
    def _orbax(self) -> Any:
        import orbax.checkpoint as ocp  # half a second, not before it is needed

        own = jax.process_index()  # the others of a run do not take part
        alone = ocp.options.MultiprocessingOptions(
            primary_host=own, active_processes={own}
        )
        return ocp.Checkpointer(
            ocp.StandardCheckpointHandler(multiprocessing_options=alone),
            multiprocessing_options=alone,
        )

    def rounds(self) -> list[int]:
        """The rounds that a folder is named by, intact or not, ascending."""
        if not self._folder.exists():
            return []
        names = [path.name for path in self._folder.iterdir()]
        return sorted(int(name) for name in names if name.isdecimal())

    def save(self, round_num: int, state: Any) -> None:
        """Saves a pytree of arrays after `round_num` rounds; returns when on disk.

        Of the checkpoints before it, the newest intact one stays.

        Raises:
          WriteError: it cannot be written; every other checkpoint is as it was.
        """
        if round_num in self._intact:
            return
        host = jax.tree.map(np.asarray, jax.device_get(state))
        saving, final = self._folder / _SAVING, self._folder / str(round_num)
        try:
            shutil.rmtree(saving, ignore_errors=True)
            saving.mkdir(parents=True)
            self._orbax.save(saving / _STATE, host)
            write_json(saving / _SUMS, _sums(saving / _STATE))
            if final.exists():  # damaged, or `restore` would have returned it
                shutil.rmtree(final)
            os.rename(saving, final)
        # Orbax and tensorstore answer a failed write with ValueError and others.
        except Exception as error:
            shutil.rmtree(saving, ignore_errors=True)
            raise WriteError(final, _reason(error)) from error
        self._intact = [*self._intact, round_num][-_KEPT:]
        for old in self.rounds():
            if old < round_num and old not in self._intact:
                shutil.rmtree(self._folder / str(old), ignore_errors=True)

    def restore(self, like: Any) -> tuple[Any, int] | None:
        """The newest intact checkpoint as `(state, rounds done)`; None without any.

        The state is numpy arrays in the structure of `like`. A damaged checkpoint is
        named in a warning, passed over and left where it is.

        Raises:
          ValueError: there are checkpoints and all are damaged.
        """
        damages: list[str] = []
        for round_num in reversed(self.rounds()):
            folder = self._folder / str(round_num)
            damage = _damage(folder)
            if damage is not None:
                damages.append(f"checkpoint {folder} is damaged ({damage})")
                continue
            for damaged in damages:
                _log.warning("%s; going on from that of round %d", damaged, round_num)
            target = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like)
            state = self._orbax.restore(folder / _STATE, target)
            self._intact = [round_num]
            return state, round_num
        if damages:
            raise ValueError(
                f"{'; '.join(damages)}; none is left to go on from: put a copy back, "
                "or start again in a new folder (nothing was changed)"
            )
        return None

    def close(self) -> None:
        """Releases orbax's threads."""
        if "_orbax" in vars(self):
            self._orbax.close()


def _sums(folder: pathlib.Path) -> dict[str, str]:
    """Path below the folder -> SHA-256, for every file in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
            found[path.relative_to(folder).as_posix()] = digest.hexdigest()
    return found


def _damage(folder: pathlib.Path) -> str | None:
    """What is wrong with a checkpoint, None when it is as it was saved."""
    try:
        promised = json.loads((folder / _SUMS).read_bytes())
        found = _sums(folder / _STATE)
    except (OSError, ValueError) as error:
        return f"{_SUMS} or a file cannot be read: {_reason(error)}"
    if found == promised:
        return None
    if not isinstance(promised, dict):
        return f"{_SUMS} is no list of sums"
    names = sorted({*promised, *found})
    wrong = next(name for name in names if promised.get(name) != found.get(name))
    what = "is missing" if wrong not in found else "differs from its SHA-256"
    return f"{_STATE}/{wrong} {what}"


def _reason(error: Exception) -> str:
    if isinstance(error, WriteError):
        return error.reason
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    code = re.search(r"os_error_code='(\d+)'", str(error))  # tensorstore's
    if code:
        return os.strerror(int(code[1]))
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# Of what a checkpoint holds and how it is gone on with: raised when either changes,
# so that no version goes on with what another one left.
STATE_VERSION = 3


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
