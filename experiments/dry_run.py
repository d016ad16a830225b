"""--dry_run: what a run would be, before anything is trained.

Who holds what, the noise of an upload, what the whole run spends, and what a round
costs. All of it follows from the settings and the data, by the run's own functions,
but for the seconds: these are of a few rounds whose results are thrown away.
"""

import time
from typing import Any

import jax
import numpy as np

from fedsvp_jax.accounting import Plan
from fedsvp_jax.accounting.claims import meaning, planned_row
from fedsvp_jax.core.tree import num_parameters
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.federation import Program
from fedsvp_jax.federation.plan import recorded_settings
from fedsvp_jax.mechanisms import noise_setting
from fedsvp_jax.mechanisms.played import extreme_uploads
from fedsvp_jax.report import headline, labels
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
    attributes, split = np.asarray(data.examples.attributes), data.split
    counts = np.zeros((split.train.shape[1], len(data.game.attributes.names)), int)
    for padded, sizes in (
        (split.train, split.num_train),
        (split.validation, split.num_validation),
    ):
        rows = np.asarray(padded[0])
        is_row = np.arange(rows.shape[1]) < np.asarray(sizes[0])[:, None]
        np.add.at(counts, (is_row.nonzero()[0], attributes[rows[is_row]]), 1)
    return counts


def summary(
    program: Program, dataset: Dataset | ClientStore, seconds: list[float]
) -> str:
    """Everything as text; `seconds` are those of `measured`."""
    config, mechanism = program.configs[0], program.mechanism
    settings = recorded_settings(config, dataset, model=program.model)
    examples = int(np.median(program.data.num_train[0]))
    return messages.filled(
        "dry_run.txt",
        program=program,
        config=config,
        data=program.data,
        dataset=dataset,
        attributes=_attribute_rows(program),
        unprotected=headline.unprotected(settings),
        noise_setting=noise_setting,
        num_examples=examples,
        uploads=_upload_rows(program, examples),
        spent=None if mechanism.claim.relation == "none" else _spent(program),
        price=_price(program),
        first=seconds[0],
        later=seconds[1:],
    )


def _attribute_rows(program: Program) -> list[dict[str, str]]:
    """A row per attribute: who holds how many of its examples."""
    counts, attributes = holdings(program), program.data.game.attributes
    if counts is None:
        return []
    return [
        {
            "attribute": name + " (private)" * (number == attributes.private),
            "examples": str(of_clients.sum()),
            "clients that hold any": str((of_clients > 0).sum()),
            "fewest": str(of_clients.min()),
            "median": f"{np.median(of_clients):g}",
            "most": str(of_clients.max()),
        }
        for number, (name, of_clients) in enumerate(
            zip(attributes.names, counts.T, strict=True)
        )
    ]


def _upload_rows(program: Program, num_examples: int) -> list[dict[str, str]]:
    """A row per extreme upload of a client with so many examples."""
    config = program.configs[0]
    head, std = "σ on the upload", "noise_std"
    if config.clip.in_steps:
        head, std = "σ in a local step", "step_noise_std"
    plays = extreme_uploads(program.mechanism, config.num_rounds, num_examples)
    return [
        {
            "round": str(round_num + 1),
            "R": f"{ratio:g}",
            head: f"{getattr(info, std):.4g}",
            "ε of the upload": labels.significant(float(info.epsilon)),
            "δ of the upload": labels.significant(float(info.delta)),
        }
        for (_, round_num, ratio), info in plays.items()
    ]


def _spent(program: Program) -> dict[str, Any]:
    """ε of a client that is drawn as often as the mean, and of one that always is."""
    config, account = program.configs[0], program.accounts[0]
    every = min(config.max_uploads or config.num_rounds, config.num_rounds)
    mean = min(-(-config.num_rounds * config.cohort_size // config.num_clients), every)
    cases, always = sorted({mean, every}), Plan(account).always
    planned = [
        planned_row(account, always if uploads == every else uploads)
        for uploads in cases
    ]
    rows = [
        {"uploads of a client": str(uploads)} | columns
        for uploads, columns in zip(cases, labels.spent_columns(planned), strict=True)
    ]
    for row in rows:
        del row["against"]  # is in the line above the table
    return {"meaning": meaning(planned[-1]), "rows": rows}


def _price(program: Program) -> dict[str, Any]:
    """What a round computes and sends: parameters, trainings, examples beside FedAvg's.

    `examples` is how many times as many the largest client's trainings see.
    """
    data = program.data
    shapes, _ = jax.eval_shape(program.model.init, jax.random.key(0), data.example)
    sizes = data.game.coalition_sizes if program.mechanism.needs_contribution else {}
    full = 2 ** len(data.game.attributes.names) - 1
    coalitions = [size for mask, size in sizes.items() if mask != full]
    drawn = program.plan.estimation.num_drawn if sizes else 0
    return {
        "parameters": num_parameters(shapes),
        "trainings": 1 + len(coalitions) + drawn,
        "examples": 1 + sum(coalitions) / data.max_num_examples,
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
