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
        """A row's numbers as scalars at its round; a dictionary's are `name/key`."""
        if not self._wanted:
            return
        for name, value in row.items():
            named = value.items() if isinstance(value, dict) else [("", value)]
            for key, item in named:
                if name not in _NO_SCALARS and isinstance(item, int | float):
                    tag = f"{name}/{key}" if key else name
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


_NO_SCALARS = ("round", "seed", "epsilon", "noise_std")  # the last three name a cell


def _writer_class() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(
            "tensorboard needs tensorboardX, which is not installed: pip install "
            "'fedsvp_jax[tensorboard]'"
        ) from None
    return SummaryWriter
