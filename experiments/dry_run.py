"""--dry_run: what a run would be, before anything is trained.

Who holds what, the noise of an upload, what the whole run spends, and what a round
costs. All of it follows from the settings and the data, by the run's own functions,
but for the seconds: these are of a few rounds whose results are thrown away.
"""

import time

import numpy as np

from fedsvp_jax.accounting import SpendingPlan
from fedsvp_jax.accounting.claims import meaning, planned_row
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.tree import cell_of, num_parameters
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.data.train_validation import attribute_counts
from fedsvp_jax.federation import Program
from fedsvp_jax.federation.plan import recorded_settings
from fedsvp_jax.mechanisms import noise_setting
from fedsvp_jax.mechanisms.played import extreme_uploads
from fedsvp_jax.report import labels
from fedsvp_jax.run.placement import Placement

from . import messages

_TIMED, _MOST_TIMED = 3.0, 3  # seconds or rounds that tell a round's time


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


def summary(
    program: Program, dataset: Dataset | ClientStore, seconds: list[float]
) -> str:
    """Everything as text; `seconds` are those of `measured`."""
    config, mechanism = program.configs[0], program.mechanism
    examples = int(np.median(program.data.num_train[0]))
    plan = SpendingPlan(program.accounts[0])
    return messages.filled(
        "dry_run.txt",
        program=program,
        dataset=dataset,
        counts=holdings(program),
        median=np.median,
        settings=recorded_settings(config, dataset, model=program.model),
        noise_setting=noise_setting,
        num_examples=examples,
        uploads=extreme_uploads(mechanism, config.num_rounds, examples),
        spent=None if mechanism.basis.relation == "none" else _spent(program, plan),
        plan=plan,
        price=_price(program),
        seconds=seconds,
    )


def _spent(program: Program, plan: SpendingPlan) -> Record:
    """ε of a client that is drawn an average number of times, and of one always."""
    config, account = program.configs[0], program.accounts[0]
    every = plan.most_uploads
    mean = min(-(-config.num_rounds * config.cohort_size // config.num_clients), every)
    cases = sorted({mean, every})
    planned = [planned_row(account, uploads) for uploads in cases]
    rows = [
        {"uploads of a client": str(uploads)} | columns
        for uploads, columns in zip(cases, labels.spent_columns(planned), strict=True)
    ]
    return {"meaning": meaning(planned[-1]), "rows": rows}


def _price(program: Program) -> Record:
    """What a round computes and sends: parameters, and trainings of each client."""
    data = program.data
    shapes, _ = program.model.shapes(data.example)
    sizes = data.counts.coalition_sizes if program.mechanism.needs_contribution else {}
    partial = sizes.keys() - {2 ** len(data.counts.attributes.names) - 1}
    random = program.plan.estimation.num_drawn if sizes else 0
    return {
        "parameters": num_parameters(shapes),
        "trainings": 1 + len(partial) + random,
    }


def measured(program: Program, placement: Placement) -> list[float]:
    """Seconds of the first rounds on this machine; the first one compiles them.

    One to three rounds after the first, none once three seconds have passed. Nothing is
    written but the compiler's cache.
    """
    from fedsvp_jax.run.trainer import Trainer

    trainer, seconds = Trainer(program, placement=placement), list[float]()
    state = trainer.initial_state()
    for round_num in range(min(program.configs[0].num_rounds, 1 + _MOST_TIMED)):
        if sum(seconds[1:]) < _TIMED:
            began = time.perf_counter()
            state, _ = trainer.advance(state, round_num, 1)
            seconds.append(time.perf_counter() - began)
    return seconds
