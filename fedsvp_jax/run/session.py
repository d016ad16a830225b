"""What a run and each mechanism of a sweep share: resume, drive, write, sum up."""

import dataclasses
import pathlib
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from fedsvp_jax import extras
from fedsvp_jax.accounting import claims
from fedsvp_jax.algorithm.state import RoundMetrics, ServerState
from fedsvp_jax.config import AccountedSettings
from fedsvp_jax.devices import processes
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.mechanisms import noise_setting
from fedsvp_jax.run import loop, records
from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.early_stopping import STOP, BestRound, shown
from fedsvp_jax.run.files import plain
from fedsvp_jax.run.folder import RunFolder
from fedsvp_jax.run.options import Options
from fedsvp_jax.run.planned_rounds import planned_account
from fedsvp_jax.run.stopping import StopRequests
from fedsvp_jax.tree import cell_of, num_parameters, params_sha256

BEST = "best"  # the folder of the best round's checkpoints
_ENDED = "released models decide after which round the run ends"


class Logs:
    """Views of runs' rows in other tools; here of none, in `report.loggers` of some."""

    def start(self, run: str, rows: Iterable[dict[str, Any]]) -> None:
        """Begins a run's logs anew, with the rows that it goes on after."""

    def add(self, run: str, row: Mapping[str, Any]) -> None:
        """A row of the run."""

    def flush(self) -> None:
        """Lets the tools see what was added."""

    def close(self) -> None:
        """Ends the logs."""


def logs_of(folder: pathlib.Path, names: Sequence[str]) -> Logs:
    """The logs that `--logger` names.

    Raises:
      ValueError: a name is unknown, or its library is not installed.
    """
    if not names:
        return Logs()
    found: Logs = extras.around("report.loggers").Loggers(folder, names)
    return found


@dataclasses.dataclass(frozen=True)
class Files:
    """Where the rows of some cells go, and what names them there.

    Attributes:
      rows: the file with one line per cell and round.
      clients: the file with one line per client and round; None for no such file.
      checkpoints: the folder of the checkpoints.
      names: per cell, the fields that tell its rows from those of other cells.
      group: the fields that all rows of these cells share.
      runs: per cell, its name in the logs.
    """

    rows: str
    clients: str | None
    checkpoints: pathlib.Path
    names: Sequence[dict[str, Any]] = ({},)
    group: dict[str, Any] = dataclasses.field(default_factory=dict)
    runs: Sequence[str] = ("",)

    def holds(self, row: dict[str, Any]) -> bool:
        """Whether a row is one of these cells'."""
        return all(row[name] == value for name, value in self.group.items())

    def cell_of(self, row: dict[str, Any]) -> int:
        """The cell that a row belongs to."""
        return self.names.index({name: row[name] for name in self.names[0]})


class Session:
    """The cells of one program, from the newest checkpoint to their last round.

    Args:
      trainer: the compiled rounds.
      folder: started; everything is written there.
      logs: of other tools.
      files: where in the folder the rows go.
      options: how it is kept and watched.
      planned: T of the run before it was continued to more rounds; None where it was
        not.

    Attributes:
      done: rounds done so far.
      state: after them.
      stopped_by: what ended the run before its last round: "promise", "patience" or
        "on_round"; None where nothing did.
      best: the best round of the first cell.
      before_round: the influence filter; None without.
    """

    def __init__(
        self,
        trainer: Trainer,
        folder: RunFolder,
        logs: Logs,
        files: Files,
        options: Options,
        planned: int | None = None,
    ) -> None:
        self._trainer, self._program = trainer, trainer.program
        self._folder, self._logs, self._files = folder, logs, files
        self._options = options
        filtered = trainer.program.configs[0].influence_filter != "none"
        self.before_round: Any = None
        if filtered:
            self.before_round = extras.around("influence.hook").FilterHook(trainer)
        nominal = _nominal(options.reveal, planned)
        self.accounts = [one.said(nominal) for one in self._program.accounts]
        self._checkpointer = Checkpointer(files.checkpoints, folder.identity)
        self.state, self.done = loop.restore(trainer, self.accounts, self._checkpointer)
        self._scores: list[list[dict[str, Any]]] = [[] for _ in files.names]
        self._diverged: list[list[int]] = [[] for _ in files.names]
        self.stopped_by: str | None = None
        self.best = BestRound()
        self._is_best = False  # the newest round of the first cell
        self._best = Checkpointer(files.checkpoints.with_name(BEST), folder.identity)
        self._go_on_after_kept_rows()
        self._clock = time.perf_counter()
        config = self._program.configs[0]
        cells = f" x {len(files.names)}" if files.group else ""
        self._bar = tqdm(
            total=config.num_rounds,
            initial=self.done,
            unit="round",
            desc=f"{config.mechanism}{cells}",
            disable=None if options.progress and processes.is_first() else True,
        )
        if options.progress and processes.is_first():
            for line in dict.fromkeys(map(_solution, self._program.solved())):
                tqdm.write(line, file=sys.stderr)

    def _go_on_after_kept_rows(self) -> None:
        """Drops the rows of rounds after the checkpoint, and reads the others."""
        files, config = self._files, self._program.configs[0]
        ends = self.done == config.num_rounds
        as_not_last = partial(records.as_not_last, eval_every=config.eval_every)
        self._folder.keep_rounds(
            files.rows,
            self.done,
            of=files.holds,
            as_kept=(lambda row: row) if ends else as_not_last,
        )
        if files.clients is not None:
            self._folder.keep_rounds(files.clients, self.done, of=files.holds)
        self._folder.keep_rounds("timing.jsonl", self.done, of=files.holds, every=False)
        for run in files.runs:
            self._logs.start(run, [])
        for row in self._folder.rows(files.rows):
            if files.holds(row):
                cell = files.cell_of(row)
                self._logs.add(files.runs[cell], row)
                self._note(cell, row)

    def _note(self, cell: int, row: dict[str, Any]) -> None:
        self._scores[cell].append(
            {"round": row["round"]}
            | {name: records.number(row.get(name)) for name in records.SCORES}
        )
        if records.diverged(row):
            self._diverged[cell].append(row["round"])
        if cell == 0:
            self._is_best = self.best.note(plain(row))

    def run(self, stop: StopRequests) -> list[dict[str, Any]]:
        """Runs the rounds that are left; returns one summary per cell.

        Raises:
          OSError, FloatingPointError, Stopped: as `loop.drive`.
        """
        try:
            if self.best.waited(self._program.configs[0].patience):
                self.stopped_by = "patience"
            else:
                self.state, self.done, self.stopped_by = loop.drive(
                    self._trainer,
                    self.accounts,
                    self.state,
                    self.done,
                    checkpointer=self._checkpointer,
                    options=self._options,
                    stop=stop,
                    watcher=self,
                )
        finally:
            self._folder.write_held()
            self._bar.close()
            self._logs.close()
        return self._summaries()

    @property
    def one_by_one(self) -> bool:
        """As `loop.Watcher`."""
        options, patience = self._options, self._program.configs[0].patience
        return bool(options.on_round or options.keep_best) or patience is not None

    def on_round(
        self, cell: int, number: int, metrics: RoundMetrics, state: ServerState
    ) -> str | None:
        """As `loop.Watcher`: holds the rows."""
        files, account = self._files, self.accounts[cell]
        config = self._program.configs[cell]
        last = number == config.num_rounds
        if (self._options.on_round or config.patience) and not last:
            account = dataclasses.replace(account, tally=_ENDED)
        row = files.names[cell] | records.round_row(metrics, round_num=number)
        row |= account.row(last=last)
        if self.before_round is not None:
            row["influence_filter"] = self.before_round.take_record()
        row["rdp_by_adversary"] = claims.by_adversary(account)
        self._folder.hold(files.rows, [row])
        if files.clients is not None:
            uploads = records.client_rows(account, metrics, round_num=number)
            self._folder.hold(files.clients, uploads)
        self._logs.add(files.runs[cell], plain(row))
        self._note(cell, row)
        latest = [by_round[-1] for by_round in self._scores if by_round]
        self._bar.set_postfix(**_shown_score(latest), **_shown_spent(row))
        return self._end_of_run(number, row, state)

    def _end_of_run(
        self, number: int, row: dict[str, Any], state: ServerState
    ) -> str | None:
        """Why the run ends with this round; None where it goes on."""
        hook = self._options.on_round
        if hook is not None:
            model = processes.to_host({"params": state.params, "stats": state.stats})
            told = shown(plain(row) | cell_of(model, 0), self._options.reveal)
            if processes.from_first(lambda: hook(number, told) is STOP):
                return "on_round"
        if self.best.waited(self._program.configs[0].patience):
            return "patience"
        return None

    def after_call(self, done: int, state: ServerState) -> None:
        """As `loop.Watcher`: writes what is held."""
        self._folder.write_held()
        if self._options.keep_best and self._is_best:
            self._best.save(done, {"server": state})
        self._logs.flush()
        now = time.perf_counter()
        count = max(done - int(self._bar.n), 1)
        timing = {"round": done, "rounds": count, "seconds": now - self._clock}
        self._folder.append("timing.jsonl", [self._files.group | timing])
        self._bar.update(done - int(self._bar.n))
        self._clock = now

    def _summaries(self) -> list[dict[str, Any]]:
        params = processes.to_host(self.state.params)
        tally = _ENDED if self.stopped_by in ("patience", "on_round") else ""
        accounts = [dataclasses.replace(one, tally=tally) for one in self.accounts]
        planned = None
        if tally and self.before_round is None:
            spent = np.asarray(processes.to_host(self.state.spent)[0])
            planned = planned_account(self._program, self.accounts[0], spent)
        return [
            {
                **self._files.names[cell],
                **records.score_summary(self._scores[cell]),
                "diverged_in_round": min(self._diverged[cell], default=None),
                "params_sha256": params_sha256(cell_of(params, cell)),
                "num_parameters": num_parameters(cell_of(params, cell)),
                **claims.summary(account, planned),
            }
            for cell, account in enumerate(accounts)
        ]


def _nominal(reveal: Sequence[str], planned: int | None) -> str:
    """Why every claim of the run is nominal; empty where none is for it."""
    if reveal:
        return (
            f"nominal: on_round, which may end the run, was given {', '.join(reveal)}, "
            "which no noise hides"
        )
    if planned is not None:
        return (
            "nominal: the number of rounds follows the data, since the run was planned "
            f"for {planned} and continued after a look"
        )
    return ""


def _shown_score(latest: list[dict[str, Any]]) -> dict[str, str]:
    """The progress bar's `accuracy=…` of all cells, or `loss=…` where there is none."""
    for name in ("accuracy", "loss"):
        scores = [row[f"test_{name}"] for row in latest]
        seen = [score for score in scores if score is not None]
        if seen:
            ends = sorted({min(seen), max(seen)})
            return {name: "-".join(f"{score:.3f}" for score in ends)}
    return {"accuracy": ""}


def _shown_spent(row: dict[str, Any]) -> dict[str, str]:
    """The progress bar's `epsilon=…`; nothing where none is claimed."""
    if row["status"] is None:
        return {}
    words = claims.meaning(row, row["status"]["rdp"])
    spent = row["epsilon_spent"]["rdp"]
    return {"epsilon": f"{spent:.3g} at δ={row['target_delta']:g} ({words})"}


def _solution(config: AccountedSettings) -> str:
    """What was solved for, in one line."""
    name, _ = noise_setting(config.mechanism)
    return (
        f"solved: {name} = {getattr(config, name):.6g} keeps total_epsilon = "
        f"{config.total_epsilon:g} ({config.total_accounting}) over "
        f"{min(config.max_uploads or config.num_rounds, config.num_rounds)} uploads of "
        "a client"
    )
