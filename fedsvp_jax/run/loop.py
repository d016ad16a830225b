"""The host's loop: advance, record, write, save; go on from where a run was."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from fedsvp_jax.accounting import Account
from fedsvp_jax.algorithm.state import RoundMetrics, ServerState
from fedsvp_jax.devices import processes
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.run import records
from fedsvp_jax.run.checkpoint import SharedCheckpointer
from fedsvp_jax.run.files import WriteError
from fedsvp_jax.run.stopping import StopRequests

_log = logging.getLogger(__name__)

# (cell, round from 1, its metrics), once the cell's account has it -> why the
# run ends with that round, in a word, or None
OnRound = Callable[[int, int, RoundMetrics], str | None]


class BeforeRound(Protocol):
    """What changes the state before some rounds: the influence filter."""

    def rounds_until_due(self, done: int) -> int:
        """Rounds from `done` on until it is called next; 0: before the next round."""

    def __call__(self, state: ServerState, done: int) -> ServerState:
        """The state that the next round starts from."""


def _content(state: ServerState, accounts: Sequence[Account]) -> dict[str, Any]:
    """What a checkpoint keeps: arrays."""
    kept = [
        {name: np.asarray(values) for name, values in account.to_json().items()}
        for account in accounts
    ]
    return {"server": state, "accounts": kept}


def restore(
    trainer: Trainer, accounts: list[Account], checkpointer: SharedCheckpointer
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
    checkpointer: SharedCheckpointer,
    checkpoint_every: int,
    on_divergence: str,
    stop: StopRequests,
    before_round: BeforeRound | None,
    on_round: OnRound,
    after_call: Callable[[int, ServerState], None],
    one_by_one: bool = False,
    ended: str | None = None,
) -> tuple[ServerState, int, str | None]:
    """Runs from `done` rounds to the end, or until nobody may upload any more.

    Args:
      trainer: the compiled rounds.
      accounts: one per cell; replaced in place by those after each round.
      state: after `done` rounds.
      checkpointer: saves the state after the rows that it stands for were written.
      checkpoint_every: rounds between checkpoints, rounded up to whole calls.
      on_divergence: what NaN or infinity in an upload or in the model does: "stop",
        or "continue" with a warning, once per cell.
      stop: asked before every call.
      before_round: called before the rounds at which it is due; None for nothing.
      on_round: called for each cell and round, in order; may end the run.
      after_call: called with the rounds done and the state, before a checkpoint is
        saved.
      one_by_one: a call for each round, so that a run ends where `on_round` says so.
      ended: why no round is to be run any more; None where some are.

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
        most = 1 if one_by_one else trainer.placement.rounds_per_call
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
                ended = on_round(cell, number, row) or ended
                try:
                    records.check_finite(
                        row, round_num=number, mechanism=config.mechanism
                    )
                except FloatingPointError as error:
                    if on_divergence == "stop":
                        raise
                    if cell not in diverged:
                        _log.warning("%s; going on (on_divergence=continue)", error)
                    diverged.add(cell)
        done += active
        with naming_what_is_kept():
            after_call(done, state)
        if active < count:
            return state, done, "promise"
        if done - saved >= checkpoint_every or done == num_rounds or ended:
            save()
    return state, done, ended
