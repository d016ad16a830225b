"""Loggers: views of the rows of metrics.jsonl and results.jsonl for other tools.

Whoever starts or resumes writes them anew from the rows that were kept, so no step is
there twice, and a run may be given a logger when it is resumed. Nothing leaves the
machine unless the tool's own environment variable says so: WANDB_MODE, or
MLFLOW_TRACKING_URI.
"""

import itertools
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.core import extras
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.settings import unknown


class Logger(NamedTuple):
    """The log of one run, in a folder of its own."""

    log: Callable[[str, float, int], object]  # name, number, and its round from 1
    close: Callable[[], object]  # ends the log


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


Start = Callable[[pathlib.Path, str], Logger]  # of the folder and name of a run


def _tensorboard() -> Start:
    """An event file, without TensorFlow."""
    from tensorboardX import SummaryWriter

    def start(place: pathlib.Path, name: str) -> Logger:
        writer = SummaryWriter(str(place), flush_secs=5)
        return Logger(writer.add_scalar, writer.close)

    return start


def _wandb() -> Start:
    """A run of Weights & Biases, offline; `wandb sync` sends it."""
    import wandb

    def start(place: pathlib.Path, name: str) -> Logger:
        place.mkdir(parents=True)
        run = wandb.init(
            project="fedsvp_jax",
            name=name,
            dir=str(place),
            mode=os.environ.get("WANDB_MODE", "offline"),
            reinit="create_new",
        )
        return Logger(
            lambda tag, value, step: run.log({tag: value}, step=step), run.finish
        )

    return start


def _mlflow() -> Start:
    """A run of MLflow, in a store of files."""
    from mlflow import MlflowClient

    def start(place: pathlib.Path, name: str) -> Logger:
        # MLflow makes the trash with a new store, and forgets that this one is new.
        (place / ".trash").mkdir(parents=True)
        # Since 3.17 MLflow refuses a store of files without this variable.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        uri = os.environ.get("MLFLOW_TRACKING_URI", place.absolute().as_uri())
        client = MlflowClient(tracking_uri=uri)
        existing = client.get_experiment_by_name("fedsvp_jax")
        experiment = existing and existing.experiment_id
        if experiment is None:
            experiment = client.create_experiment("fedsvp_jax")
        run = client.create_run(experiment, run_name=name).info.run_id
        return Logger(
            lambda tag, value, step: client.log_metric(run, tag, value, step=step),
            lambda: client.set_terminated(run),
        )

    return start


# By the name that --logger takes, as extra and folder do: each imports its library.
LOGGERS = {"tensorboard": _tensorboard, "wandb": _wandb, "mlflow": _mlflow}


class Loggers:
    """The logs of one run or sweep.

    Args:
      folder: of the run or sweep; a log lies in its folder `NAME/RUN`.
      names: of `LOGGERS`; empty makes every call do nothing.

    Raises:
      ValueError: a name is unknown, or its library is not installed.
    """

    def __init__(self, folder: pathlib.Path, names: Sequence[str]) -> None:
        self._folder = folder
        self._starts: dict[str, Start] = {}
        self._open: dict[str, list[Logger]] = {}
        for name in names:
            if name not in LOGGERS:
                raise unknown("logger", name, tuple(LOGGERS))
            with extras.needed(name, f"logger {name}"):
                self._starts[name] = LOGGERS[name]()

    def start(self, run: str) -> None:
        """Starts a run's logs anew, which are empty.

        Args:
          run: its name in a sweep, a folder below; "" is a run by itself.
        """
        self._open[run] = []
        for name, start in self._starts.items():
            place = self._folder / name / run
            shutil.rmtree(place, ignore_errors=True)
            self._open[run].append(start(place, run or self._folder.resolve().name))

    def add(self, run: str, row: Record) -> None:
        """A row's numbers at its round."""
        for logger in self._open[run]:
            for tag, value in scalars(row).items():
                logger.log(tag, value, row["round"])

    def close(self) -> None:
        """Ends the logs."""
        for logger in itertools.chain(*self._open.values()):
            logger.close()
        self._open.clear()
