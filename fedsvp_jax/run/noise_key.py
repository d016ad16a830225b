"""The key of a run's noise, of the system's entropy, in a file of its own.

A seed has at most 31 bits, all of which can be tried, and config.json names it. With
`secret_noise` the streams that hide something (`prng.HIDING`) take 64 bits of entropy
in its place. They lie in the run's folder, since a resumed run goes on with them, and
nothing else holds them. Once the run has ended the file may be deleted.
"""

import os
import pathlib

FILE = "noise.key"


def fresh() -> bytes:
    """A key that nobody knows."""
    return os.urandom(8)


def of_folder(folder: pathlib.Path) -> bytes:
    """The key of the run in the folder; a fresh one where there is none yet.

    Raises:
      ValueError: a run has begun there, and its key is gone or damaged.
    """
    file = folder / FILE
    key = file.read_bytes() if file.exists() else b""
    if not (key or (folder / "checkpoints").exists()):
        return fresh()
    if len(key) != len(fresh()):
        raise ValueError(
            f"cannot resume {folder}: {FILE}, the key of its noise, is gone or damaged"
        )
    return key
