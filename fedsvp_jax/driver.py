"""The host's loop: advance, record, write, save; go on from where a run was."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedsvp_jax import guarantees, records
from fedsvp_jax.accounting import Ledger
from fedsvp_jax.federated_round import RoundMetrics, ServerState
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.shared_folder import SharedCheckpointer
from fedsvp_jax.training import Trainer

# (cell, round from 1, its metrics, epsilon spent by accounting)
OnRound = Callable[[int, int, RoundMetrics, dict[str, float]], None]


def _with_ledgers(state: ServerState, ledgers: Sequence[Ledger]) -> dict[str, Any]:
    return {"server": state, "ledgers": [ledger.state_dict() for ledger in ledgers]}


def restore(
    trainer: Trainer, ledgers: list[Ledger], checkpointer: SharedCheckpointer
) -> tuple[ServerState, int]:
    """The newest checkpoint's `(state, rounds done)`, or the start.

    `ledgers` are replaced in place by the checkpoint's.
    """
    state = trainer.initial_state()
    done = checkpointer.latest_round()
    if done is None:
        return state, 0
    saved = checkpointer.restore(_with_ledgers(state, ledgers))
    ledgers[:] = [
        Ledger.from_state_dict(content, proved=ledger.proved)
        for content, ledger in zip(saved["ledgers"], ledgers, strict=True)
    ]
    return trainer.place(saved["server"]), done


def drive(
    trainer: Trainer,
    mechanism: Mechanism,
    ledgers: Sequence[Ledger],
    state: ServerState,
    done: int,
    *,
    checkpointer: SharedCheckpointer,
    checkpoint_every: int,
    on_round: OnRound,
    after_call: Callable[[int], None],
) -> tuple[ServerState, int]:
    """Runs from `done` rounds to the end, or until nobody may upload any more.

    Args:
      trainer: the compiled rounds.
      mechanism: the cells' mechanism, for what the ledger has to know of it.
      ledgers: one a cell; they record what was applied.
      state: after `done` rounds.
      checkpointer: saves the state after the rows that it stands for were written.
      checkpoint_every: rounds between checkpoints, rounded up to whole calls.
      on_round: called for each cell and round, in order.
      after_call: called with the rounds done, before a checkpoint is saved.

    Returns:
      `(state, rounds done)`; fewer than asked when a promise ended the run.

    Raises:
      FloatingPointError: an upload held NaN or infinity; its round was passed on.
    """
    configs = trainer.configs
    num_rounds, saved = configs[0].num_rounds, done
    releases = [
        guarantees.release_epsilon(settings, mechanism)
        for settings in trainer.mechanism_configs
    ]
    while done < num_rounds:
        count = min(trainer.placement.rounds_per_call, num_rounds - done)
        state, metrics = trainer.advance(state, done, count)
        asked = (metrics.clients.client_id >= 0).any(axis=(1, 2))
        active = int(np.argmin(asked)) if not asked.all() else count
        for cell, ledger in enumerate(ledgers):
            config = configs[cell]
            for index, row in enumerate(records.rounds_of(metrics, cell)):
                if index >= active:
                    break
                number = done + index + 1
                records.record_round(
                    ledger,
                    row,
                    round_num=number,
                    release_epsilon=releases[cell],
                    at_upload=mechanism.step_noise_std is None,
                )
                spent = guarantees.epsilon_spent(
                    ledger,
                    config.target_delta,
                    central=mechanism.claim.central,
                    last=number == num_rounds,
                )
                on_round(cell, number, row, spent)
                records.check_finite(row, round_num=number, mechanism=config.mechanism)
        done += active
        after_call(done)
        if active < count:
            break
        if done - saved >= checkpoint_every or done == num_rounds:
            checkpointer.save(done, _with_ledgers(state, ledgers))
            saved = done
    return state, done
