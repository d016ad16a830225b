"""Files that are whole or not there: written beside their place and renamed."""

import contextlib
import hashlib
import json
import math
import os
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

AnyPath = str | os.PathLike[str]
Record = dict[str, Any]  # names and plain values: settings, a row, a summary
BESIDE = ".tmp"  # ends the name of a file that is not whole yet


def plain(value: Any) -> Any:
    """Numpy to plain Python; float32 by its shortest form, non-finite to None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.float32):
        value = float(str(value))
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class WriteError(OSError):
    """A file of a run cannot be written; the message says why, and how to go on."""

    def __init__(
        self,
        path: Path,
        reason: OSError | str,
        saved: str = "what was saved before",
    ) -> None:
        self.path = path
        self.reason = getattr(reason, "strerror", None) or str(reason)
        super().__init__(
            f"{path} cannot be written ({self.reason}); {saved} is kept: mend this, "
            "then go on with the same command and --resume"
        )


def printable(text: str) -> str:
    """The text with control characters spelt out: what files say moves no cursor."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def replace_file(path: Path, *parts: bytes, mode: int = 0o666) -> None:
    """Writes the parts, one after another, as the whole file or not at all.

    It is on the disk when this returns. A link is followed to its file, which is what
    is replaced; a link that somebody put in the place of the file beside it is not. A
    new file has the mode, less the process's umask.

    Raises:
      WriteError: it cannot be written; the whole former file is there, or, where the
        folder's own record of it fails last, the whole new one.
    """
    real = Path(os.path.realpath(path))
    beside = real.with_name(real.name + BESIDE)
    try:
        beside.unlink(missing_ok=True)  # a killed process's
        with open(beside, "xb", opener=partial(os.open, mode=mode)) as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, real)
        sync(real.parent)  # else a power cut may bring the former file back
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise WriteError(path, error) from error


def sync(path: AnyPath) -> None:
    """Returns when a file's content, or the names in a folder, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sha256(path: AnyPath) -> str:
    """The hexadecimal digits of a file's SHA-256, which is read piece by piece."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_folder(path: Path) -> None:
    """Makes a folder and those above it that are missing; returns when on the disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)


def toml_beside(module: str, name: str) -> dict[str, Any]:
    """The content of a TOML file, named from the folder of a module's `__file__`."""
    return tomllib.loads((Path(module).parent / name).read_text("utf-8"))


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is damaged.
    """
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error})") from error


def write_json(path: Path, content: Any) -> None:
    """Writes the file whole or not at all.

    Raises:
      WriteError: it cannot be written; what was there is as it was.
    """
    text = json.dumps(plain(content), indent=2, allow_nan=False) + "\n"
    replace_file(path, text.encode())
