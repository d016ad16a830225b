"""The host's loop: advance, record, write, save; go on from where a run was."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from fedsvp_jax.accounting import Account
from fedsvp_jax.algorithm.state import RoundMetrics, ServerState
from fedsvp_jax.devices import processes
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.run import records
from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.files import WriteError
from fedsvp_jax.run.options import Options
from fedsvp_jax.run.stopping import StopRequests

_log = logging.getLogger(__name__)


class BeforeRound(Protocol):
    """What changes the state before some rounds: the influence filter."""

    def rounds_until_due(self, done: int) -> int:
        """Rounds from `done` on until it is called next; 0: before the next round."""

    def __call__(self, state: ServerState, done: int) -> ServerState:
        """The state that the next round starts from."""


class Watcher(Protocol):
    """Who is told of the rounds, and may end the run."""

    @property
    def one_by_one(self) -> bool:
        """A call for each round, so that a run ends where `on_round` says so."""

    @property
    def before_round(self) -> BeforeRound | None:
        """Called before the rounds at which it is due; None for nothing."""

    def on_round(
        self, cell: int, number: int, metrics: RoundMetrics, state: ServerState
    ) -> str | None:
        """Called for each cell and round, from 1, in order, once the account has it.

        Args:
          state: after the call's last round, which is this one where `one_by_one`.

        Returns:
          Why the run ends with that round, in a word; None where it goes on.
        """

    def after_call(self, done: int, state: ServerState) -> None:
        """Called with the rounds done, before a checkpoint is saved."""


def _content(state: ServerState, accounts: Sequence[Account]) -> dict[str, Any]:
    """What a checkpoint keeps: arrays."""
    kept = [
        {name: np.asarray(values) for name, values in account.to_json().items()}
        for account in accounts
    ]
    return {"server": state, "accounts": kept}


def restore(
    trainer: Trainer, accounts: list[Account], checkpointer: Checkpointer
) -> tuple[ServerState, int]:
    """The newest intact checkpoint's `(state, rounds done)`, or the start.

    `accounts` are replaced in place by the checkpoint's.

    Raises:
      ValueError: there are checkpoints and all are damaged.
    """
    state = trainer.initial_state()
    found = checkpointer.restore(_content(state, accounts))
    if found is None:
        return state, 0
    saved, done = found
    accounts[:] = [
        account.from_json(content)
        for content, account in zip(saved["accounts"], accounts, strict=True)
    ]
    return trainer.place(saved["server"]), done


def drive(
    trainer: Trainer,
    accounts: list[Account],
    state: ServerState,
    done: int,
    *,
    checkpointer: Checkpointer,
    options: Options,
    stop: StopRequests,
    watcher: Watcher,
) -> tuple[ServerState, int, str | None]:
    """Runs from `done` rounds to the end, or until nobody may upload any more.

    Args:
      trainer: the compiled rounds.
      accounts: one per cell; replaced in place by those after each round.
      state: after `done` rounds.
      checkpointer: saves the state after the rows that it stands for were written.
      options: `checkpoint_every` is rounded up to whole calls; after NaN or infinity
        in an upload or in the model, "continue" warns once per cell.
      stop: asked before every call.
      watcher: told of every round.

    Returns:
      `(state, rounds done, why)`: what ended the run before its last round, in a word
      ("promise", or what `on_round` said); None where nothing did.

    Raises:
      FloatingPointError: an upload or the model held NaN or infinity; its round was
        passed on.
      Stopped: a signal asked for it; the state is saved.
      WriteError: a row or a checkpoint cannot be written; names the checkpoint left.
    """
    program = trainer.program
    configs = program.configs
    num_rounds, saved = configs[0].num_rounds, done
    diverged: set[int] = set()
    before_round, ended = watcher.before_round, None

    @contextlib.contextmanager
    def naming_what_is_kept() -> Iterator[None]:
        try:
            yield
        except WriteError as error:
            kept = f"the checkpoint of round {saved}" if saved else "config.json"
            raise WriteError(error.path, error.reason, kept=kept) from error

    def save() -> None:
        nonlocal saved
        if done > saved:
            with naming_what_is_kept():
                checkpointer.save(done, _content(state, accounts))
            saved = done

    while done < num_rounds and ended is None:
        if stop.asked():
            save()
            raise stop.stopped(
                f"after round {done} of {num_rounds} ({configs[0].mechanism}), which "
                "is saved"
                if done
                else f"before round 1 ({configs[0].mechanism})"
            )
        most = 1 if watcher.one_by_one else trainer.placement.rounds_per_call
        count = min(most, num_rounds - done)
        if before_round is not None:
            if before_round.rounds_until_due(done) == 0:
                state = before_round(state, done)
                accounts[:] = [account.record_pass() for account in accounts]
            count = min(count, before_round.rounds_until_due(done + 1) + 1)
        state, metrics = trainer.advance(state, done, count)
        filled = np.flatnonzero((metrics.clients.client_id >= 0).any(axis=(1, 2)))
        active = int(filled[-1]) + 1 if len(filled) else 0
        if active < count:
            left = processes.to_host((state.spent, state.admitted))
            if not program.is_over(*left, done + active):
                active = count  # only the turn of a cohort that is not whole
        by_cell = [
            list(records.rounds_of(metrics, cell)) for cell in range(len(accounts))
        ]
        # Round by round, so that the order of the lines follows no size of a call.
        for index, number in enumerate(range(done + 1, done + active + 1)):
            for cell, account in enumerate(accounts):
                config, row = configs[cell], by_cell[cell][index]
                accounts[cell] = records.record_round(account, row)
                ended = watcher.on_round(cell, number, row, state) or ended
                try:
                    records.check_finite(
                        row, round_num=number, mechanism=config.mechanism
                    )
                except FloatingPointError as error:
                    if options.on_divergence == "stop":
                        raise
                    if cell not in diverged:
                        _log.warning("%s; going on (on_divergence=continue)", error)
                    diverged.add(cell)
        done += active
        with naming_what_is_kept():
            watcher.after_call(done, state)
        if active < count:
            return state, done, "promise"
        if done - saved >= options.checkpoint_every or done == num_rounds or ended:
            save()
    return state, done, ended
