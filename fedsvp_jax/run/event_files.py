"""TensorBoard's event files: views of the rows of metrics.jsonl and results.jsonl.

Whoever starts or resumes writes them anew from the rows that were kept, so no step is
there twice, and a run may be given them when it is resumed.
"""

import pathlib
import re
import shutil
from typing import Any

from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.core import extras
from fedsvp_jax.core.files import Record

# Fields that are no curve: the step, the cell's settings, and the δ in ε's names.
_NO_SCALARS = (
    "round",
    "seed",
    "epsilon",
    "target_delta",
    "rdp_by_adversary",  # which has neither status nor relation
)


def scalars(row: Record) -> dict[str, float]:
    """A row's numbers by name; those of a dictionary are `name/key`.

    The names of ε spent contain its status and δ: see `_spent_tag`.
    """
    numbers = {}
    for name, value in row.items():
        items = value.items() if isinstance(value, dict) else [("", value)]
        for key, item in items:
            if name not in _NO_SCALARS and isinstance(item, int | float):
                tag = f"{name}/{key}" if key else name
                if name == "epsilon_spent":
                    tag = _spent_tag(row, key)
                numbers[tag] = float(item)
    return numbers


def _spent_tag(row: Record, method: str) -> str:
    """`epsilon_spent/rdp_at_delta_1e-05_proved_against_server_neighbours_…`.

    Basic holds at `delta_spent`. TensorBoard keeps letters, digits, `_`, `-`, `.` and
    `/` of a name.
    """
    target = row.get("target_delta")
    delta = "" if target is None else f" at delta {target:g}"
    if method == "basic" and row.get("delta_spent") is not None:
        delta = " at delta_spent"
    words = meaning(row, (row.get("status") or {}).get(method))
    name = re.sub(r"[^\w.-]+", "_", f"{method}{delta} {words}".strip())
    return f"epsilon_spent/{name}"


class EventFiles:
    """The event files of one run or sweep, written without TensorFlow.

    Args:
      folder: of the run or sweep; a run's files lie in its folder `tensorboard/RUN`.
      enabled: else every call does nothing.

    Raises:
      MissingExtra: tensorboardX is not installed.
    """

    def __init__(self, folder: pathlib.Path, *, enabled: bool) -> None:
        self._folder, self._writer = folder / "tensorboard", None
        self._open: dict[str, Any] = {}
        if enabled:
            with extras.needed("tensorboard", "--tensorboard"):
                from tensorboardX import SummaryWriter

            self._writer = SummaryWriter

    def start(self, run: str) -> None:
        """Starts a run's files anew, which are empty.

        Args:
          run: its name in a sweep, a folder below; "" is a run by itself.
        """
        if self._writer is not None:
            place = self._folder / run
            shutil.rmtree(place, ignore_errors=True)
            self._open[run] = self._writer(str(place), flush_secs=5)

    def add(self, run: str, row: Record) -> None:
        """A row's numbers at its round."""
        if self._writer is not None:
            for tag, value in scalars(row).items():
                self._open[run].add_scalar(tag, value, row["round"])

    def close(self) -> None:
        """Ends the files."""
        for writer in self._open.values():
            writer.close()
        self._open.clear()
