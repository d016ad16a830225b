"""Finished parts of an attack, kept so that --resume does not compute them again."""

from collections.abc import Callable
from typing import Any

from fedsvp_jax.core.files import read_json, write_json
from fedsvp_jax.run.folder import RunFolder


def finished_or_made(folder: RunFolder, name: str, make: Callable[[], Any]) -> Any:
    """The result of `make`, as JSON; read from pieces/NAME.json if it exists.

    Raises:
      ValueError: that file is damaged.
      WriteError: it cannot be written.
    """
    file = folder.path / "pieces" / f"{name}.json"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        write_json(file, make())
    try:
        return read_json(file)
    except ValueError as error:
        raise ValueError(f"{error}: remove it and run with --resume") from None
