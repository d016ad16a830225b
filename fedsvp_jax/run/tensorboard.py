"""TensorBoard event files: a view of the rows of metrics.jsonl and results.jsonl.

Whoever starts or resumes writes them anew from the rows that were kept, so no step is
there twice, and a run may be given them when it is resumed.
"""

import pathlib
from collections.abc import Iterable
from typing import Any

from fedsvp_jax.devices import processes

FOLDER = "tensorboard"


class EventFiles:
    """The event files of one run or sweep, written by process 0.

    Args:
      folder: of the run or sweep; the files lie in its `tensorboard`.
      wanted: false makes every call do nothing.

    Raises:
      ValueError: they are wanted, and tensorboardX is not installed.
    """

    def __init__(self, folder: pathlib.Path, *, wanted: bool) -> None:
        if wanted:
            _writer_class()
        self._folder = folder / FOLDER
        self._wanted = wanted and processes.is_first()
        self._writers: dict[str, Any] = {}

    def start(self, run: str, rows: Iterable[dict[str, Any]]) -> None:
        """Writes a run's file anew, from the rows that it goes on after.

        Args:
          run: TensorBoard's name of it, a folder below; "" is the folder itself.
          rows: with their `round`.
        """
        if not self._wanted:
            return
        place = self._folder / run
        for old in place.glob("events.out.tfevents.*"):
            old.unlink()
        self._writers[run] = _writer_class()(str(place))
        for row in rows:
            self.add(run, row)

    def add(self, run: str, row: dict[str, Any]) -> None:
        """A row's numbers as scalars at its round; a dictionary's are `name/key`.

        The names of ε spent tell its status and δ: see `_spent_tag`.
        """
        if not self._wanted:
            return
        for name, value in row.items():
            named = value.items() if isinstance(value, dict) else [("", value)]
            for key, item in named:
                if name not in _NO_SCALARS and isinstance(item, int | float):
                    tag = f"{name}/{key}" if key else name
                    if name == "epsilon_spent":
                        tag = _spent_tag(row, key)
                    self._writers[run].add_scalar(tag, float(item), row["round"])

    def flush(self) -> None:
        """Lets TensorBoard see what was added."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Flushes and ends the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


# The first names the step, three name a cell, the last one is in ε's names.
_NO_SCALARS = ("round", "seed", "epsilon", "noise_std", "target_delta")


def _spent_tag(row: dict[str, Any], method: str) -> str:
    """`epsilon_spent_nominal/rdp_at_delta_1e-05`; basic holds at `delta_spent`.

    TensorBoard keeps letters, digits, `_`, `-`, `.` and `/` of a name.
    """
    status = (row.get("status") or {}).get(method)
    group = f"epsilon_spent_{status}" if status else "epsilon_spent"
    target = row.get("target_delta")
    if method == "basic" and row.get("delta_spent") is not None:
        return f"{group}/basic_at_delta_spent"
    return f"{group}/{method}" + ("" if target is None else f"_at_delta_{target:g}")


def _writer_class() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(
            "tensorboard needs tensorboardX, which is not installed: pip install "
            "'fedsvp_jax[tensorboard]'"
        ) from None
    return SummaryWriter
