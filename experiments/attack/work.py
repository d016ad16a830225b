"""What the command does with every attack: pieces that --resume does not do again."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedsvp_jax.core.files import Record
from fedsvp_jax.data.dataset import Dataset


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
