"""The key of a run's noise, of the system's entropy, in a file of its own.

A seed has at most 31 bits, all of which can be tried, and config.json names it. With
`secret_noise` the streams that hide something (`prng.HIDING`) take 64 bits of entropy
in its place. They lie in the run's folder, since a resumed run goes on with them, and
nothing else holds them. Once the run has ended the file may be deleted.
"""

import os
import pathlib

from fedsvp_jax.core.files import replace_file

FILE = "noise.key"
NUM_BYTES = 8


def fresh() -> bytes:
    """A key that nobody knows."""
    return os.urandom(NUM_BYTES)


def of_folder(folder: pathlib.Path) -> bytes:
    """The key of the run in the folder; a fresh one where there is none yet.

    Raises:
      ValueError: a run has begun there, and its key is gone.
    """
    try:
        return (folder / FILE).read_bytes()
    except FileNotFoundError:
        if (folder / "checkpoints").exists():
            raise ValueError(
                f"cannot resume {folder}: {FILE} is gone, the key of its noise"
            ) from None
        return fresh()


def keep(folder: pathlib.Path, key: bytes) -> None:
    """Writes the key, for the owner of the folder alone."""
    replace_file(folder / FILE, key, mode=0o600)
