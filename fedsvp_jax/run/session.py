"""A session runs the cells of one program: it resumes, advances, writes, sums up."""

import contextlib
import dataclasses
import logging
import pathlib
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import jax
import numpy as np
from tqdm import tqdm

from fedsvp_jax.accounting import Account, claims
from fedsvp_jax.config import AccountedSettings
from fedsvp_jax.core.files import WriteError, plain
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.core.tree import cell_of, num_parameters, params_sha256
from fedsvp_jax.mechanisms import noise_setting
from fedsvp_jax.round.state import RoundMetrics, ServerState
from fedsvp_jax.run import records
from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.early_stopping import STOP, BestRound, visible_row
from fedsvp_jax.run.folder import RunFolder
from fedsvp_jax.run.loggers import Loggers
from fedsvp_jax.run.options import Options
from fedsvp_jax.run.planned_rounds import planned_account
from fedsvp_jax.run.stopping import Stopped, StopRequests
from fedsvp_jax.run.trainer import Trainer

BEST = "best"  # the folder of the best round's checkpoints
_ENDED = "released models decide after which round the run ends"
_log = logging.getLogger(__name__)


def logs_of(folder: pathlib.Path, names: Sequence[str]) -> list[Any]:
    """The logs in other tools that `--logger` names: one `Loggers`, or none.

    Raises:
      ValueError: a name is unknown, or its library is not installed.
    """
    return [Loggers(folder, names)] if names else []


@dataclasses.dataclass(frozen=True)
class Files:
    """Where the rows of some cells go, and what names them there.

    Attributes:
      rows: the file with one line per cell and round.
      clients: the file with one line per client and round; None for no such file.
      checkpoints: the folder of the checkpoints.
      names: per cell, the fields that tell its rows from those of other cells.
      group: the fields that all rows of these cells share.
    """

    rows: str
    clients: str | None
    checkpoints: pathlib.Path
    names: Sequence[dict[str, Any]] = ({},)
    group: dict[str, Any] = dataclasses.field(default_factory=dict)

    def holds(self, row: dict[str, Any]) -> bool:
        """Whether a row is one of these cells'."""
        return all(row[name] == value for name, value in self.group.items())

    def cell_of(self, row: dict[str, Any]) -> int:
        """The cell that a row belongs to."""
        return self.names.index({name: row[name] for name in self.names[0]})

    def log(self, cell: int) -> str:
        """A cell's name in the logs: `fedsva-0.2-0`, `none-0`; "" of a single run."""
        values = self.names[cell].values()
        return "-".join(str(value) for value in values if value is not None)


class StateHook(Protocol):
    """Changes the state between two rounds, as the influence filter does."""

    def rounds_until_due(self, done: int) -> int:
        """Rounds from `done` on until it acts; 0: now."""

    def __call__(self, state: ServerState, done: int) -> ServerState:
        """The state with which the next round begins."""

    def charge(self, account: Account) -> Account:
        """The account after it acted."""

    def take_record(self) -> dict[str, Any]:
        """Fields of the next round's row."""


class Session:
    """The cells of one program, from the newest checkpoint to their last round.

    Args:
      folder: started; everything is written there.
      options: how it is kept and watched; `checkpoint_every` is rounded up to whole
        calls.
      planned: T of the run before it was continued to more rounds; None where it was
        not.

    Attributes:
      done: rounds done so far.
      program: of the trainer.
      state: after them.
      accounts: one per cell, after them.
      stopped_by: what ended the run before its last round: "promise" (nobody may
        upload any more), "patience" or "on_round"; None where nothing did.

    Raises:
      ValueError: there are checkpoints and all are damaged, or the rows do not fit.
    """

    def __init__(
        self,
        trainer: Trainer,
        folder: RunFolder,
        logs: Sequence[Any],
        files: Files,
        options: Options,
        planned: int | None = None,
        hooks: Sequence[StateHook] = (),
    ) -> None:
        self._trainer, self.program = trainer, trainer.program
        self._config = config = self.program.configs[0]
        self._folder, self._logs, self._files = folder, logs, files
        self._options = options
        self._hooks = hooks
        nominal = _nominal(options.reveal, planned)
        self.accounts = [
            account.with_nominal(nominal) for account in self.program.accounts
        ]
        self._checkpointer = Checkpointer(files.checkpoints, folder.identity)
        self.state, self.done = trainer.initial_state(), 0
        if newest := self._checkpointer.restore(self._content()):
            content, self.done = newest
            self.state = trainer.place(content["server"])
            self.accounts = [
                account.from_arrays(sums)
                for sums, account in zip(
                    content["accounts"], self.accounts, strict=True
                )
            ]
        self._saved = self.done  # rounds of the newest checkpoint
        self._written = self.done  # rounds whose rows are in the files
        self._scores: list[list[dict[str, Any]]] = [[] for _ in files.names]
        self._diverged: list[list[int]] = [[] for _ in files.names]
        self.stopped_by: str | None = None
        self._best = BestRound()  # of the first cell
        self._is_best = False  # its newest round
        self._keeper = Checkpointer(files.checkpoints.with_name(BEST), folder.identity)
        self._go_on_after_kept_rows()
        self._clock = time.perf_counter()
        cells = f" x {len(files.names)}" if files.group else ""
        self._bar = progress_bar(
            total=config.num_rounds,
            initial=self.done,
            unit="round",
            desc=f"{config.mechanism}{cells}",
            disable=None if options.progress else True,
        )
        if options.progress:
            for line in dict.fromkeys(map(_solution, self.program.solved())):
                tqdm.write(line, file=sys.stderr)

    def _content(self) -> dict[str, Any]:
        """The arrays that a checkpoint keeps."""
        accounts = [account.arrays() for account in self.accounts]
        return {"server": self.state, "accounts": accounts}

    def _go_on_after_kept_rows(self) -> None:
        """Drops the rows of rounds after the checkpoint, and reads the others."""
        files, keep = self._files, self._folder.keep_rounds
        as_not_last = partial(records.as_not_last, eval_every=self._config.eval_every)
        ends = self.done == self._config.num_rounds
        as_kept = (lambda row: row) if ends else as_not_last
        keep(files.rows, self.done, where=files.holds, as_kept=as_kept)
        if files.clients is not None:
            keep(files.clients, self.done, where=files.holds)
        keep("timing.jsonl", self.done, where=files.holds, every=False)
        for logs in self._logs:
            for cell in range(len(files.names)):
                logs.start(files.log(cell), [])
        for row in filter(files.holds, self._folder.rows(files.rows)):
            self._note(files.cell_of(row), row)

    def _note(self, cell: int, row: dict[str, Any]) -> None:
        """Adds a row to the scores, the loggers and the best round."""
        for logs in self._logs:
            logs.add(self._files.log(cell), plain(row))
        self._scores[cell].append(
            {"round": row["round"]}
            # As float32, so that a resumed run reads the same back.
            | {name: plain(np.float32(row.get(name))) for name in records.SCORES}
        )
        if records.diverged(row):
            self._diverged[cell].append(row["round"])
        if cell == 0:
            self._is_best = self._best.note(plain(row))

    def run(self, stop: StopRequests) -> list[dict[str, Any]]:
        """Runs the rounds that are left; returns one summary per cell.

        Args:
          stop: asked before every call.

        Raises:
          FloatingPointError: an upload or the model held NaN or infinity, and
            `on_divergence` is "stop"; the round's rows are written.
          Stopped: a signal asked for it; the state is saved.
          WriteError: a row or a checkpoint cannot be written; names the checkpoint
            left.
        """
        try:
            if self._best.waited(self._config.patience):
                self.stopped_by = "patience"
            while self.done < self._config.num_rounds and self.stopped_by is None:
                self._stop_if_asked(stop)
                self._call()
        finally:
            self._folder.write_held()
            self._bar.close()
            for logs in self._logs:
                logs.close()
        return self._summaries()

    def _stop_if_asked(self, stop: StopRequests) -> None:
        if stop.received is None:
            return
        self._save()
        total, name = self._config.num_rounds, self._config.mechanism
        raise Stopped(
            stop.received,
            f"after round {self.done} of {total} ({name}), which is saved"
            if self.done
            else f"before round 1 ({name})",
        )

    def _call(self) -> None:
        """Runs some rounds in one call of the compiled program and keeps their rows."""
        options, config = self._options, self._config
        # A run that a round may end takes one round per call.
        ends = options.on_round or options.keep_best or config.patience is not None
        limit = 1 if ends else self._trainer.placement.rounds_per_call
        count = min(limit, config.num_rounds - self.done)
        for hook in self._hooks:
            if hook.rounds_until_due(self.done) == 0:
                self.state = hook(self.state, self.done)
                self.accounts = [hook.charge(account) for account in self.accounts]
            count = min(count, hook.rounds_until_due(self.done + 1) + 1)
        self.state, metrics = self._trainer.advance(self.state, self.done, count)
        filled = np.flatnonzero((metrics.clients.client_id >= 0).any(axis=(1, 2)))
        active = int(filled[-1]) + 1 if len(filled) else 0
        if active < count:
            spent, admitted = jax.device_get((self.state.spent, self.state.admitted))
            if not self.program.is_over(spent, admitted, self.done + active):
                active = count  # only the turn of a cohort that is not whole
        # Round by round, so that the order of the lines follows no size of a call.
        for index in range(active):
            for cell in range(len(self.accounts)):
                of_cell = cell_of(metrics, (index, cell))
                self._take(cell, self.done + 1 + index, of_cell)
        self.done += active
        self._write()
        if active < count:
            self.stopped_by = "promise"
        elif (
            self.done - self._saved >= options.checkpoint_every
            or self.done == config.num_rounds
            or self.stopped_by
        ):
            self._save()

    def _take(self, cell: int, number: int, metrics: RoundMetrics) -> None:
        """Records a cell's round, counted from 1, and holds its rows."""
        files, options = self._files, self._options
        config = self.program.configs[cell]
        account = records.record_round(self.accounts[cell], metrics)
        self.accounts[cell] = account
        last = number == config.num_rounds
        if (options.on_round or config.patience) and not last:
            account = dataclasses.replace(account, tally=_ENDED)
        row = files.names[cell] | records.round_row(metrics, round_num=number)
        row |= claims.row(account, last=last)
        for hook in self._hooks:
            row |= hook.take_record()
        row["rdp_by_adversary"] = claims.by_adversary(account)
        self._folder.hold(files.rows, [row])
        if files.clients is not None:
            uploads = records.client_rows(account, metrics, round_num=number)
            self._folder.hold(files.clients, uploads)
        self._note(cell, row)
        latest = [by_round[-1] for by_round in self._scores if by_round]
        self._bar.set_postfix(**_score_text(latest), **_epsilon_text(row))
        self.stopped_by = self._end_of_run(number, row) or self.stopped_by
        try:
            records.check_finite(metrics, round_num=number, mechanism=config.mechanism)
        except FloatingPointError as error:
            if options.on_divergence == "stop":
                raise
            if self._diverged[cell] == [number]:
                _log.warning("%s; going on (on_divergence=continue)", error)

    def _end_of_run(self, number: int, row: dict[str, Any]) -> str | None:
        """The reason why the run ends with this round; None where it goes on."""
        hook, state = self._options.on_round, self.state
        if hook is not None:
            model = jax.device_get({"params": state.params, "stats": state.stats})
            visible = visible_row(plain(row) | cell_of(model, 0), self._options.reveal)
            if hook(number, visible) is STOP:
                return "on_round"
        return "patience" if self._best.waited(self._config.patience) else None

    def _write(self) -> None:
        """Writes the rows of a call."""
        now, before = time.perf_counter(), self._written
        count = max(self.done - before, 1)
        timing = {"round": self.done, "rounds": count, "seconds": now - self._clock}
        with self._naming_what_is_kept():
            self._folder.write_held()
            if self._options.keep_best and self._is_best:
                self._keeper.save(self.done, {"server": self.state})
            self._folder.append("timing.jsonl", [self._files.group | timing])
        self._bar.update(self.done - before)
        self._clock, self._written = now, self.done

    def _save(self) -> None:
        """Saves the state, once the rows that it stands for were written."""
        if self.done > self._saved:
            with self._naming_what_is_kept():
                self._checkpointer.save(self.done, self._content())
            self._saved = self.done

    @contextlib.contextmanager
    def _naming_what_is_kept(self) -> Iterator[None]:
        try:
            yield
        except WriteError as error:
            done = self._saved
            saved = f"the checkpoint of round {done}" if done else "config.json"
            raise WriteError(error.path, error.reason, saved=saved) from error

    def _summaries(self) -> list[dict[str, Any]]:
        params = jax.device_get(self.state.params)
        tally = _ENDED if self.stopped_by in ("patience", "on_round") else ""
        accounts = [
            dataclasses.replace(account, tally=tally) for account in self.accounts
        ]
        planned = None
        if tally and not self._hooks:
            spent = np.asarray(self.state.spent[0])
            planned = planned_account(self.program, self.accounts[0], spent)
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
    """The reason why every claim of the run is nominal; "" where there is none."""
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


def _score_text(latest: list[dict[str, Any]]) -> dict[str, str]:
    """The progress bar's `accuracy=…` of all cells, or `loss=…` where there is none."""
    for name in ("accuracy", "loss"):
        scores = [row[f"test_{name}"] for row in latest]
        seen = [score for score in scores if score is not None]
        if seen:
            ends = sorted({min(seen), max(seen)})
            return {name: "-".join(f"{score:.3f}" for score in ends)}
    return {"accuracy": ""}


def _epsilon_text(row: dict[str, Any]) -> dict[str, str]:
    """The progress bar's `epsilon=…`; nothing where none is claimed."""
    if row["status"] is None:
        return {}
    words = claims.meaning(row, row["status"]["rdp"])
    spent = row["epsilon_spent"]["rdp"]
    return {"epsilon": f"{spent:.3g} at δ={row['target_delta']:g} ({words})"}


def _solution(config: AccountedSettings) -> str:
    """The setting that was solved for, in one line."""
    name, _ = noise_setting(config.mechanism)
    return (
        f"solved: {name} = {getattr(config, name):.6g} keeps total_epsilon = "
        f"{config.total_epsilon:g} ({config.total_accounting}) over "
        f"{min(config.max_uploads or config.num_rounds, config.num_rounds)} uploads of "
        "a client"
    )
