"""What the command does with every attack: pieces that --resume does not do again."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedsvp_jax.core.files import Record, read_json, write_json
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.run.folder import RunFolder


class Work(NamedTuple):
    """An attack whose settings are checked, before anything is written.

    Attributes:
      data: the data set that is attacked; None where none is read.
      settings: for config.json, besides the attack's own flags.
      pieces: name -> what computes its result, as JSON.
      finish: takes the results by name and the output folder; writes pictures, prints
        tables, and returns the content of results.json.
    """

    data: Dataset | None
    settings: Record
    pieces: Mapping[str, Callable[[], Any]]
    finish: Callable[[Record, pathlib.Path], Record]


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
