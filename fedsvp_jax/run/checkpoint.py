"""Checkpoints: what a run needs in order to continue to the same bits.

A checkpoint is one file, named by its round: a line with a SHA-256, then the state as
`flax.serialization` writes it (msgpack). The sum covers the run's settings, the round
and the state, so that no checkpoint of another run or round is taken. The file is
written beside its place and renamed when all of it is on the disk, so a killed or
failed save leaves the others whole.
"""

import hashlib
import logging
import pathlib
from typing import Any

import jax
from flax import serialization

from fedsvp_jax.core.files import BESIDE, WriteError, make_folder, replace_file

_KEPT = 2  # intact checkpoints that a save leaves
_log = logging.getLogger(__name__)

# Raised when the content of a checkpoint changes, or the way in which a run continues
# from it: a run that another version started is then refused.
STATE_VERSION = 17


class Checkpointer:
    """The newest checkpoints of one run.

    Their sums cover the run's `identity` (`folder.identity`).
    """

    def __init__(self, folder: pathlib.Path, identity: str) -> None:
        self._folder = folder.absolute()
        self._identity = identity
        self._intact: list[int] = []  # rounds restored from or saved, ascending

    def rounds(self) -> list[int]:
        """The rounds that a file is named by, intact or not, ascending."""
        names = (path.name for path in self._folder.glob("*"))
        return sorted(int(name) for name in names if name.isdecimal())

    def save(self, round_num: int, state: Any) -> None:
        """Saves a pytree of arrays after `round_num` rounds; returns when on disk.

        Of the checkpoints before it, the newest intact one stays.

        Raises:
          WriteError: it cannot be written; every other checkpoint is as it was.
        """
        file = self._folder / str(round_num)
        content = serialization.to_bytes(jax.device_get(state))
        try:
            make_folder(self._folder)
        except OSError as error:
            raise WriteError(file, error) from error
        replace_file(file, self._sum(content, round_num) + b"\n", content)
        self._intact = [*self._intact, round_num][-_KEPT:]
        for old in self.rounds():
            if old < round_num and old not in self._intact:
                (self._folder / str(old)).unlink()
        for unfinished in self._folder.glob(f"*{BESIDE}"):  # of saves that were killed
            unfinished.unlink()

    def restore(self, like: Any) -> tuple[Any, int] | None:
        """The newest intact checkpoint as `(state, rounds done)`; None without any.

        The state is numpy arrays in the structure of `like`.

        Raises:
          ValueError: as `newest`.
        """
        if (newest := self.newest()) is None:
            return None
        content, round_num = newest
        self._intact = [round_num]
        return serialization.from_bytes(like, content), round_num

    def newest(self) -> tuple[bytes, int] | None:
        """Content and round of the newest intact checkpoint; None without any.

        A damaged checkpoint is named in a warning, passed over and left where it is.

        Raises:
          ValueError: there are checkpoints and all are damaged.
        """
        damages: list[str] = []
        for round_num in reversed(self.rounds()):
            file = self._folder / str(round_num)
            try:
                promised, _, content = file.read_bytes().partition(b"\n")
                if promised != self._sum(content, round_num):
                    raise ValueError(
                        "it differs from its SHA-256, or is of another run or round"
                    )
            except (OSError, ValueError) as error:
                damages.append(f"checkpoint {file} is damaged ({error})")
                continue
            for damaged in damages:
                _log.warning(f"{damaged}; going on from that of round {round_num}")
            return content, round_num
        if damages:
            raise ValueError(
                f"{'; '.join(damages)}; none is left to go on from: put a copy back, "
                "or start again in a new folder (nothing was changed)"
            )
        return None

    def _sum(self, content: bytes, round_num: int) -> bytes:
        header = f"{self._identity} {round_num}\n"
        return hashlib.sha256(header.encode() + content).hexdigest().encode()
