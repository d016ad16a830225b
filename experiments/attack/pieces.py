"""What attacks share: finished parts that --resume finds, and flags out of place."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from absl import flags

from fedsvp_jax.run.folder import RunFolder, write_json


def kept(folder: RunFolder, name: str, make: Callable[[], Any]) -> Any:
    """What `make` returned, as JSON has it: from pieces/NAME.json if that is there.

    Raises:
      ValueError: the kept file is damaged.
      WriteError: it cannot be written.
    """
    file = folder.path / "pieces" / f"{name}.json"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        write_json(file, make())
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}): remove it and resume") from None


def refuse_flags(values: flags.FlagValues, names: Iterable[str], why: str) -> None:
    """Refuses flags that an attack would not read.

    Raises:
      ValueError: one of them is on the command line.
    """
    for name in names:
        if values[name].present:
            raise ValueError(f"{name} must be left out: {why}")
