"""--dry_run: what a run would be, before anything is trained.

Who holds what, the noise of an upload, what the whole run spends, and what a round
costs. All of it follows from the settings and the data, by the run's own functions,
and is known at once. The seconds come last: they are of a few rounds whose results are
thrown away.
"""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedsvp_jax.accounting import SpendingPlan
from fedsvp_jax.core.tree import cell_of, num_parameters
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.data.train_validation import attribute_counts
from fedsvp_jax.federation import Program
from fedsvp_jax.federation.plan import recorded_settings
from fedsvp_jax.mechanisms.noise_check import extreme_uploads
from fedsvp_jax.run.placement import Placement

from . import messages

_TIMED, _MOST_TIMED = 3.0, 3  # seconds or rounds that tell a round's time
LIMIT = 60.0  # seconds that may pass until then


def holdings(program: Program) -> np.ndarray | None:
    """(M, N) examples of the first cell's clients by attribute, for training or not.

    None for a store, which stays on disk.
    """
    data = program.data
    if data.reader is not None:
        return None
    split, attributes = cell_of(data.split, 0), np.asarray(data.examples.attributes)
    number = len(data.counts.attributes.names)
    return attribute_counts(
        split.train, split.num_train, attributes, number
    ) + attribute_counts(split.validation, split.num_validation, attributes, number)


def summary(program: Program, dataset: Dataset | ClientStore) -> str:
    """All but the seconds, as text."""
    config, mechanism = program.configs[0], program.mechanism
    examples = int(np.median(program.data.num_train[0]))
    shapes, _ = program.model.shapes(program.data.example)
    return messages.filled(
        "dry_run.txt",
        program=program,
        dataset=dataset,
        counts=holdings(program),
        median=np.median,
        settings=recorded_settings(config, dataset, model=program.model),
        num_examples=examples,
        uploads=extreme_uploads(mechanism, config.num_rounds, examples),
        plan=SpendingPlan(program.accounts[0]),
        parameters=num_parameters(shapes),
        limit=LIMIT,
    )


def measured(program: Program, placement: Placement) -> list[float]:
    """Seconds of compiling, then of the first rounds, on this machine.

    One to three rounds, none once three seconds have passed, and none that `LIMIT` ends
    first. Those of a stream are compiled with the first one. Nothing is written but the
    compiler's cache. A thread runs them, since no signal interrupts a compiled round;
    after `LIMIT` it goes on until the process ends.
    """
    from fedsvp_jax.run.trainer import Trainer

    seconds = list[float]()

    def run_rounds() -> None:
        trainer, done = Trainer(program, placement=placement), 0
        state = trainer.initial_state()
        timed = min(program.configs[0].num_rounds, _MOST_TIMED)
        for rounds in (int(program.stream is not None), *[1] * timed):
            if sum(seconds[1:]) < _TIMED:
                began = time.perf_counter()
                state, _ = trainer.advance(state, done, rounds)
                seconds.append(time.perf_counter() - began)
                done += rounds

    with contextlib.suppress(TimeoutError):
        ThreadPoolExecutor(1).submit(run_rounds).result(LIMIT)
    return [*seconds]
