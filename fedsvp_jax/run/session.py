"""A session runs the cells of one program: it resumes, advances, writes, sums up."""

import logging
from collections.abc import Sequence

import jax
import numpy as np

from fedsvp_jax.accounting import SpendingPlan, claims
from fedsvp_jax.core.files import Record, WriteError, plain
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.core.tree import cell_of, num_parameters, params_sha256
from fedsvp_jax.round.state import RoundMetrics

from . import influence_filter, records, stopping
from .checkpoint import Checkpointer
from .folder import RunFolder
from .options import Options
from .trainer import Trainer

_SHOWN = ("test_accuracy", "test_loss")
_log = logging.getLogger(__name__)


class Session:
    """The cells of one program, from the newest checkpoint to their last round.

    Args:
      folder: started; everything is written there.
      options: how it is kept and watched; `checkpoint_every` is rounded up to whole
        calls.
      checkpointer: of these cells.
      cell_names: of a sweep, per cell the fields that tell its rows from those of
        other cells, its mechanism among them; None of a single run, which alone keeps
        a row per client and round.

    Attributes:
      done: rounds done so far.
      program: of the trainer.
      state: after them.
      accounts: one per cell, after them.
      stopped_by: "promise" where nobody may upload any more before the last round.

    Raises:
      ValueError: there are checkpoints and all are damaged, or the rows do not fit.
    """

    def __init__(
        self,
        trainer: Trainer,
        folder: RunFolder,
        options: Options,
        checkpointer: Checkpointer,
        *,
        cell_names: Sequence[Record] | None = None,
    ) -> None:
        self._trainer, self.program = trainer, trainer.program
        self._config = config = self.program.configs[0]
        self._folder, self._options = folder, options
        self._filter_record: Record | None = None  # of the first round
        in_sweep = cell_names is not None
        self._names = cell_names or [{}]
        files = ["results.jsonl"] if in_sweep else ["metrics.jsonl", "clients.jsonl"]
        self._rows_file, *self._clients_files = files
        self._checksums = dict.fromkeys(files, 0)  # of the rows so far
        self._checkpointer = checkpointer
        self.accounts = list(self.program.accounts)
        self.state, self.done = trainer.initial_state(), 0
        if newest := self._checkpointer.restore(self._content()):
            content, self.done = newest
            self.state = trainer.place(content["server"])
            self._checksums = content["rows"]
            self.accounts = [
                account.from_arrays(sums)
                for sums, account in zip(
                    content["accounts"], self.accounts, strict=True
                )
            ]
        rounds = min(SpendingPlan(account).whole_rounds for account in self.accounts)
        if rounds < config.num_rounds:
            _log.warning(
                f"the uploads that clients may send fill about {rounds} of "
                f"{config.num_rounds} rounds; where total_epsilon ends them, "
                "--solve=noise finds the noise for all rounds"
            )
        if config.batch_size > self.program.data.split.train.shape[-1]:
            _log.warning(
                f"batch_size {config.batch_size} is more examples than any client has, "
                "so a batch is all of a client's"
            )
        self._has_warned = False  # of a loss that is not finite
        self._saved = self.done  # rounds of the newest checkpoint
        if 0 < self.done < config.num_rounds:
            _log.warning(f"goes on at round {self.done + 1} of {config.num_rounds}")
        self._rows: list[list[Record]] = [[] for _ in self._names]
        self.stopped_by: str | None = None
        self._go_on_after_kept_rows()
        self._bar = progress_bar(
            total=config.num_rounds,
            initial=self.done,
            unit="round",
            desc=f"{config.mechanism} x {len(self._names)}"
            if in_sweep
            else config.mechanism,
            disable=not options.progress,
        )

    def _content(self) -> Record:
        """The arrays that a checkpoint keeps."""
        accounts = [account.arrays() for account in self.accounts]
        return {"server": self.state, "accounts": accounts, "rows": self._checksums}

    def _go_on_after_kept_rows(self) -> None:
        """Drops the rows of rounds after the checkpoint, and reads the others."""
        cells = {tuple(names.values()): cell for cell, names in enumerate(self._names)}

        def cell_of_row(row: Record) -> int | None:
            return cells.get(tuple(map(row.get, self._names[0])))

        for name, checksum in self._checksums.items():
            self._folder.keep_rounds(
                name,
                self.done,
                is_ours=lambda row: cell_of_row(row) is not None,
                checksum=checksum,
            )
        for row in self._folder.rows(self._rows_file):
            if (place := cell_of_row(row)) is not None:
                self._rows[place].append(row)

    def run(self, stop: stopping.StopRequests) -> list[Record]:
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
            while self.done < self._config.num_rounds and self.stopped_by is None:
                if stop.received is not None:
                    self._save()
                    total, name = self._config.num_rounds, self._config.mechanism
                    raise stopping.Stopped(
                        stop.received,
                        f"after round {self.done} of {total} ({name}), which is saved"
                        if self.done
                        else f"before round 1 ({name})",
                    )
                self._call()
        except WriteError as error:
            done = self._saved
            saved = f"the checkpoint of round {done}" if done else "config.json"
            raise WriteError(error.path, error.reason, saved=saved) from error
        finally:
            self._bar.close()
        return self._summaries()

    def _call(self) -> None:
        """Runs some rounds in one call of the compiled program and keeps their rows."""
        num_rounds = self._config.num_rounds
        count = min(self._trainer.placement.rounds_per_call, num_rounds - self.done)
        if self._config.influence_filter != "none" and self.done == 0:
            self.state, self._filter_record = influence_filter.filter_clients(
                self._trainer, self.state
            )
            self.accounts = [account.record_pass() for account in self.accounts]
        self.state, metrics = self._trainer.advance(self.state, self.done, count)
        filled = np.flatnonzero((metrics.clients.client_id >= 0).any(axis=(1, 2)))
        active = int(filled[-1]) + 1 if len(filled) else 0
        if active < count:
            spent, admitted = jax.device_get((self.state.spent, self.state.admitted))
            if self.program.is_over(spent, admitted, self.done + active).all():
                self.stopped_by = "promise"
            else:
                active = count  # only the turn of a cohort that is not whole
        lines: dict[str, list[Record]] = {}
        try:
            # Round by round, so that the order of the lines follows no size of a call.
            for index in range(active):
                for cell in range(len(self.accounts)):
                    of_cell = cell_of(metrics, (index, cell))
                    self._take(cell, self.done + 1 + index, of_cell, lines)
        finally:
            for name, rows in lines.items():
                self._checksums[name] += self._folder.append(name, rows)
        self.done += active
        self._bar.update(active)
        due = self.done - self._saved >= self._options.checkpoint_every
        if due or self.done == num_rounds or self.stopped_by:
            self._save()

    def _take(
        self,
        cell: int,
        number: int,
        metrics: RoundMetrics,
        lines: dict[str, list[Record]],
    ) -> None:
        """Records a cell's round, counted from 1; its rows go to the files' `lines`."""
        config = self.program.configs[cell]
        account = records.record_round(self.accounts[cell], metrics)
        self.accounts[cell] = account
        row = self._names[cell] | records.round_row(metrics, round_num=number)
        row |= claims.row(account, last=number == config.num_rounds)
        if config.influence_filter != "none":
            row["influence_filter"] = self._filter_record if number == 1 else None
        row = plain(row | {"rdp_by_adversary": claims.by_adversary(account)})
        lines.setdefault(self._rows_file, []).append(row)
        for name in self._clients_files:
            lines.setdefault(name, []).extend(
                records.client_rows(account, metrics, round_num=number)
            )
        self._rows[cell].append(row)
        self._bar.set_postfix(
            {name: row[name] for name in _SHOWN if row[name] is not None},
            refresh=False,
        )
        try:
            records.check_finite(metrics, round_num=number, mechanism=config.mechanism)
        except FloatingPointError as error:
            if self._options.on_divergence == "stop":
                raise
            if sum(map(records.diverged, self._rows[cell])) == 1:
                _log.warning(f"{error}; going on (on_divergence=continue)")
            return
        if not self._has_warned and self._has_no_loss(row):
            self._has_warned = True
            _log.warning(
                f"the test loss is not finite after round {number}: such gradients "
                "count as 0 and the model may learn nothing; look at the loss and "
                "the data"
            )

    def _has_no_loss(self, row: Record) -> bool:
        """Whether the test loss of an evaluated round is not finite."""
        config, number = self._config, row["round"]
        evaluated = number % config.eval_every == 0 or number == config.num_rounds
        return evaluated and row["test_loss"] is None

    def _save(self) -> None:
        """Saves the state, once the rows that it stands for were written."""
        if self.done > self._saved:
            self._checkpointer.save(self.done, self._content())
            self._saved = self.done

    def _summaries(self) -> list[Record]:
        params = jax.device_get(self.state.params)
        return [
            {
                **self._names[cell],
                **records.score_summary(rows),
                "diverged_in_round": next(
                    (
                        row["round"]
                        for row in rows
                        if records.diverged(row) or self._has_no_loss(row)
                    ),
                    None,
                ),
                "params_sha256": params_sha256(cell_of(params, cell)),
                "num_parameters": num_parameters(cell_of(params, cell)),
                **claims.summary(account),
            }
            for cell, (account, rows) in enumerate(
                zip(self.accounts, self._rows, strict=True)
            )
        ]
