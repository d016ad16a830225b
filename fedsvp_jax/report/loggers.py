"""Loggers: views of the rows of metrics.jsonl and results.jsonl for other tools.

Whoever starts or resumes writes them anew from the rows that were kept, so no step is
there twice, and a run may be given a logger when it is resumed. Nothing leaves the
machine unless the tool's own environment variable says so: WANDB_MODE, or
MLFLOW_TRACKING_URI.
"""

import abc
import csv
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fedsvp_jax import extras
from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.devices import processes
from fedsvp_jax.run.session import Logs
from fedsvp_jax.settings import unknown

Scalars = Mapping[str, float]  # by name; TensorBoard's signs only, see `scalars`


class Logger(abc.ABC):
    """The log of one run, in a folder of its own."""

    @abc.abstractmethod
    def log(self, round_num: int, numbers: Scalars) -> None:
        """Adds what was measured in a round, from 1."""

    def flush(self) -> None:  # noqa: B027
        """Lets others see what was added; some libraries do so by themselves."""

    @abc.abstractmethod
    def close(self) -> None:
        """Flushes and ends the log."""


# The first names the step, three name a cell, the last one is in ε's names.
_NO_SCALARS = (
    *("round", "seed", "epsilon", "noise_std", "target_delta"),
    "rdp_by_adversary",  # which has neither status nor relation
)


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """A row's numbers by name; those of a dictionary are `name/key`.

    The names of ε spent tell its status and δ: see `_spent_tag`.
    """
    found = {}
    for name, value in row.items():
        named = value.items() if isinstance(value, dict) else [("", value)]
        for key, item in named:
            if name not in _NO_SCALARS and isinstance(item, int | float):
                tag = f"{name}/{key}" if key else name
                if name == "epsilon_spent":
                    tag = _spent_tag(row, key)
                found[tag] = float(item)
    return found


def _spent_tag(row: Mapping[str, Any], method: str) -> str:
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


class CsvLogger(Logger):
    """metrics.csv; the first row's names are its columns, and later ones are added."""

    def __init__(self, place: pathlib.Path, name: str) -> None:
        del name
        place.mkdir(parents=True)
        self._file = place / "metrics.csv"
        self._rows: list[dict[str, float]] = []

    def log(self, round_num: int, numbers: Scalars) -> None:
        """As `Logger`."""
        self._rows.append({"round": round_num, **numbers})

    def flush(self) -> None:
        """As `Logger`; the whole file is written, since columns may have come."""
        columns = list(dict.fromkeys(name for row in self._rows for name in row))
        with self._file.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(self._rows)

    def close(self) -> None:
        """As `Logger`."""
        self.flush()


class TensorboardLogger(Logger):
    """An event file, without TensorFlow."""

    def __init__(self, place: pathlib.Path, name: str) -> None:
        from tensorboardX import SummaryWriter

        del name
        self._writer = SummaryWriter(str(place))

    def log(self, round_num: int, numbers: Scalars) -> None:
        """As `Logger`."""
        for tag, value in numbers.items():
            self._writer.add_scalar(tag, value, round_num)

    def flush(self) -> None:
        """As `Logger`."""
        self._writer.flush()

    def close(self) -> None:
        """As `Logger`."""
        self._writer.close()


class WandbLogger(Logger):
    """A run of Weights & Biases, offline; `wandb sync` sends it."""

    def __init__(self, place: pathlib.Path, name: str) -> None:
        import wandb

        place.mkdir(parents=True)
        self._run = wandb.init(
            project="fedsvp_jax",
            name=name,
            dir=str(place),
            mode=os.environ.get("WANDB_MODE", "offline"),
            reinit="create_new",
        )

    def log(self, round_num: int, numbers: Scalars) -> None:
        """As `Logger`."""
        self._run.log(dict(numbers), step=round_num)

    def close(self) -> None:
        """As `Logger`."""
        self._run.finish()


class MlflowLogger(Logger):
    """A run of MLflow, in a store of files."""

    def __init__(self, place: pathlib.Path, name: str) -> None:
        from mlflow import MlflowClient

        # MLflow makes the trash with a new store, and forgets that this one is new.
        (place / ".trash").mkdir(parents=True)
        # Since 3.17 files are to be asked for; a database would need more libraries.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        uri = os.environ.get("MLFLOW_TRACKING_URI", place.absolute().as_uri())
        self._client = MlflowClient(tracking_uri=uri)
        known = self._client.get_experiment_by_name("fedsvp_jax")
        experiment = (
            self._client.create_experiment("fedsvp_jax")
            if known is None
            else known.experiment_id
        )
        self._run = self._client.create_run(experiment, run_name=name).info.run_id

    def log(self, round_num: int, numbers: Scalars) -> None:
        """As `Logger`."""
        for name, value in numbers.items():
            self._client.log_metric(self._run, name, value, step=round_num)

    def close(self) -> None:
        """As `Logger`."""
        self._client.set_terminated(self._run)


# By the name that --logger takes; the name of the extra and of the folder too.
LOGGERS: dict[str, Callable[[pathlib.Path, str], Logger]] = {
    "csv": CsvLogger,
    "tensorboard": TensorboardLogger,
    "wandb": WandbLogger,
    "mlflow": MlflowLogger,
}
_LIBRARIES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}


class Loggers(Logs):
    """The logs of one run or sweep, written by process 0.

    Args:
      folder: of the run or sweep; a log lies in its folder `NAME/RUN`.
      names: of `LOGGERS`; empty makes every call do nothing.

    Raises:
      ValueError: a name is unknown, or its library is not installed.
    """

    def __init__(self, folder: pathlib.Path, names: Sequence[str]) -> None:
        for name in names:
            _check(name)
        self._folder = folder
        self._names = list(dict.fromkeys(names)) if processes.is_first() else []
        self._open: dict[str, list[Logger]] = {}

    def start(self, run: str, rows: Iterable[dict[str, Any]]) -> None:
        """Writes a run's logs anew, from the rows that it goes on after.

        Args:
          run: its name in a sweep, a folder below; "" is a run by itself.
          rows: with their `round`.
        """
        self._open[run] = []
        for name in self._names:
            place = self._folder / name / run
            shutil.rmtree(place, ignore_errors=True)
            logger = LOGGERS[name](place, run or self._folder.resolve().name)
            self._open[run].append(logger)
        for row in rows:
            self.add(run, row)

    def add(self, run: str, row: Mapping[str, Any]) -> None:
        """A row's numbers at its round."""
        for logger in self._open[run]:
            logger.log(row["round"], scalars(row))

    def flush(self) -> None:
        """Lets the tools see what was added."""
        for logger in self._every():
            logger.flush()

    def close(self) -> None:
        """Flushes and ends the logs."""
        for logger in self._every():
            logger.close()
        self._open.clear()

    def _every(self) -> Iterable[Logger]:
        return [logger for loggers in self._open.values() for logger in loggers]


def _check(name: str) -> None:
    if name not in LOGGERS:
        raise ValueError(unknown("logger", name, tuple(LOGGERS)))
    if name in _LIBRARIES:
        extras.needed(_LIBRARIES[name], name, f"logger {name}")
