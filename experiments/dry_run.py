"""--dry_run: what a run would be, before anything is trained.

Who holds what, the noise of an upload, what the whole run spends, and what a round
costs. All of it follows from the settings and the data, by the run's own functions,
but for the seconds: these are of a few rounds whose results are thrown away.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsvp_jax.accounting.claims import meaning, planned_row
from fedsvp_jax.core.tree import num_parameters
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.federation import Program
from fedsvp_jax.federation.plan import recorded_settings
from fedsvp_jax.mechanisms import noise_setting
from fedsvp_jax.mechanisms.played import extreme_uploads
from fedsvp_jax.report import figures, headline, labels, text_table
from fedsvp_jax.run.folder import PLANNED
from fedsvp_jax.run.placement import Placement

_MOST_ROWS = 12  # of the table of attributes
_IN_MEANING = ("against",)  # columns that the line above the table tells
_TIMED, _MOST_TIMED = 3.0, 3  # seconds or rounds that tell a round's time


class Holdings(NamedTuple):
    """How many examples every client holds, for training and for validation."""

    by_class: np.ndarray  # (M, classes)
    by_attribute: np.ndarray  # (M, N)
    train: np.ndarray  # (M,) those for training


def holdings(program: Program) -> Holdings | None:
    """What the first cell's clients hold; None for a store, which stays on disk."""
    data = program.data
    if data.reader is not None:
        return None
    labels_, attributes = (
        np.asarray(leaf) for leaf in (data.examples.labels, data.examples.attributes)
    )
    split = data.split
    parts = [
        (np.asarray(rows[0]), np.asarray(sizes[0]))
        for rows, sizes in (
            (split.train, split.num_train),
            (split.validation, split.num_validation),
        )
    ]
    train = parts[0][1]
    client_rows = [
        np.concatenate([rows[client][: sizes[client]] for rows, sizes in parts])
        for client in range(len(train))
    ]

    def counts(values: np.ndarray, kinds: int) -> np.ndarray:
        return np.stack(
            [np.bincount(values[rows], minlength=kinds) for rows in client_rows]
        )

    num_attributes = len(data.game.attributes.names)
    return Holdings(
        counts(labels_, data.num_classes), counts(attributes, num_attributes), train
    )


def summary(program: Program, dataset: Dataset | ClientStore) -> str:
    """Everything but the picture, as text."""
    client_counts = holdings(program)
    settings = recorded_settings(program.configs[0], dataset, model=program.model)
    parts = [_data(program, dataset, client_counts), headline.unprotected(settings)]
    parts += [_noise(program, client_counts), _spent(program), _price(program)]
    return "\n\n".join(filter(None, parts))


def _data(
    program: Program, dataset: Dataset | ClientStore, client_counts: Holdings | None
) -> str:
    config, data = program.configs[0], program.data
    tested = f"{len(data.test.labels)} for the test"
    if data.validation is not None:
        tested += f", {len(data.validation.labels)} for validation"
    names, private = data.game.attributes.names, data.game.attributes.private
    lines = [
        f"Data: {config.dataset}, {len(dataset.train_labels)} examples for the "
        f"clients, {tested}, {data.num_classes} "
        f"classes, examples of the shape {tuple(dataset.example_shape)}",
        f"Clients: {config.num_clients} by partition={config.partition}, of which "
        f"{config.num_hbc_clients} are honest-but-curious; {data.min_num_examples} to "
        f"{data.max_num_examples} training examples each",
        f"Private: {names[private]} (attributes={config.attributes})",
    ]
    if isinstance(dataset, Dataset) and dataset.train_persons is not None:
        persons = len(np.unique(dataset.train_persons))
        limit = data.rows_per_person or "all"
        lines.append(
            f"Persons: {persons} for the clients, {limit} rows of each at most"
        )
    if client_counts is None:
        return "\n".join(lines)
    rows = [
        {
            "attribute": name + (" (private)" if number == private else ""),
            "examples": str(counts.sum()),
            "clients that hold any": str((counts > 0).sum()),
            "fewest": str(counts.min()),
            "median": f"{np.median(counts):g}",
            "most": str(counts.max()),
        }
        for number, (name, counts) in enumerate(
            zip(names, client_counts.by_attribute.T, strict=True)
        )
    ]
    first_rows = rows[:_MOST_ROWS]
    lines += ["", text_table.aligned(first_rows)]
    if len(rows) > len(first_rows):
        lines.append(f"and {len(rows) - len(first_rows)} more attributes")
    return "\n".join(lines)


def _noise(program: Program, client_counts: Holdings | None) -> str:
    config, mechanism = program.configs[0], program.mechanism
    lines = [f"Noise: mechanism {config.mechanism}, clipping={config.clipping}"]
    for solved in program.solved():
        name, _ = noise_setting(config.mechanism)
        lines.append(
            f"Solved: {name} = {getattr(solved, name):.6g} keeps total_epsilon = "
            f"{solved.total_epsilon:g} ({config.total_accounting})"
        )
    examples = program.data.max_num_examples
    if client_counts is not None:
        examples = int(np.median(client_counts.train))
    rows = []
    plays = extreme_uploads(mechanism, config.num_rounds, num_examples=examples)
    for (round_num, ratio), info in plays.items():
        in_steps = float(info.step_noise_std) > 0
        std = float(info.step_noise_std if in_steps else info.noise_std)
        rows.append(
            {
                "round": str(round_num + 1),
                "R": f"{ratio:g}",
                "σ in a local step" if in_steps else "σ on the upload": f"{std:.4g}",
                "ε of the upload": labels.significant(float(info.epsilon)),
                "δ of the upload": labels.significant(float(info.delta)),
            }
        )
    lines.append(f"of a client with {examples} training examples:")
    return "\n".join([*lines, "", text_table.aligned(rows)])


def _spent(program: Program) -> str:
    config = program.configs[0]
    if program.mechanism.claim.relation == "none":
        return f"ε of the run: mechanism {config.mechanism} promises nothing"
    rounds, cap = config.num_rounds, config.max_uploads
    every = min(cap or rounds, rounds)
    mean = min(-(-rounds * config.cohort_size // config.num_clients), every)
    account = program.accounts[0]
    cases = sorted({mean, every})
    planned = [
        planned_row(account, account.plan.always if uploads == every else uploads)
        for uploads in cases
    ]
    rows = [
        {"uploads of a client": str(uploads)} | columns
        for uploads, columns in zip(cases, labels.spent_columns(planned), strict=True)
    ]
    last = planned[-1]
    lines = [
        "ε of the run, at most, of a client that is drawn as often as the mean, and of "
        "one that uploads whenever it may (basic: at Σδ, the sum of the uploads' δ, "
        f"and nothing from Σδ = 1 on); {meaning(last)}:",
        "",
        text_table.aligned(
            [
                {name: text for name, text in row.items() if name not in _IN_MEANING}
                for row in rows
            ]
        ),
    ]
    if config.total_epsilon is not None:
        lines.append(
            f"total_epsilon = {config.total_epsilon:g} ({config.total_accounting}) is "
            "kept: nobody is asked for an upload that would exceed it."
        )
    if program.mechanism.claim.central:
        consequence = (
            "does not upload"
            if account.plan.least_cohort > 1
            else "has less noise in its average, and the run would count it"
        )
        lines.append(
            f"A cohort of fewer than {config.cohort_size} clients {consequence}."
        )
    return "\n".join(lines)


def _price(program: Program) -> str:
    config, data = program.configs[0], program.data
    key = jax.random.key(0)
    shapes, _ = jax.eval_shape(program.model.init, key, program.data.example)
    parameters = num_parameters(shapes)
    full = 2 ** len(data.game.attributes.names) - 1
    sizes = data.game.coalition_sizes if program.mechanism.needs_contribution else {}
    coalitions = [size for mask, size in sizes.items() if mask != full]
    sampled = program.plan.estimation.num_drawn if sizes else 0
    price = 1 + sum(coalitions) / data.max_num_examples
    line = (
        f"A round: {config.cohort_size} uploads of {4 * parameters / 1e6:.3g} MB "
        f"({parameters} parameters in float32) and {config.cohort_size} × "
        f"{1 + len(coalitions) + sampled} trainings; FedAvg has "
        f"{config.cohort_size} × 1"
    )
    if coalitions:
        line += (
            f". The trainings of the largest client see {price:.3g} times the examples "
            "that FedAvg's sees"
        )
    if sampled:
        line += f"; {sampled} of the coalitions are drawn anew for each client"
    return line + "."


class Seconds(NamedTuple):
    """What was measured on this machine."""

    start: float  # compiling and the first round
    per_round: float  # mean of the rounds after it
    timed: int  # how many these were


def measured(
    program: Program, placement: Placement, *, enough: float = _TIMED
) -> Seconds:
    """Compiles the rounds and runs a few of them, of the first cohorts.

    One to three rounds after the first, none once `enough` seconds have passed. Nothing
    is written but the compiler's cache.
    """
    from fedsvp_jax.run.trainer import Trainer

    config = program.configs[0]
    trainer = Trainer(program, placement=placement)
    began = time.perf_counter()
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    compiled = time.perf_counter()
    done, ended = 1, compiled
    rounds = min(config.num_rounds, 1 + _MOST_TIMED)
    while done < rounds and ended - compiled < enough:
        state, _ = trainer.advance(state, done, 1)
        done += 1
        ended = time.perf_counter()
    per_round = (ended - compiled) / max(done - 1, 1)
    return Seconds(compiled - began, per_round, done - 1)


def time_line(program: Program, seconds: Seconds) -> str:
    """How long the run would take."""
    config, (start, per_round, timed) = program.configs[0], seconds
    compiled = (
        f"{_long(start - per_round)} to compile it, which is kept for the next time "
        "(--compilation_cache_dir)"
    )
    if not timed:
        return f"Time: about {compiled}, with the one round."
    line = (
        f"Time: about {_long(per_round * config.num_rounds)} to compute "
        f"{config.num_rounds} rounds on this machine as busy as it is now, by the mean "
        f"of the {timed} that were run and thrown away; and {compiled}"
    )
    if config.influence_filter != "none":
        line += "; the influence filter's passes come on top"
    return line + "."


def _long(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    minutes = seconds / 60
    return f"{minutes:.3g} min" if minutes < 100 else f"{minutes / 60:.3g} h"


def draw(program: Program, folder: Path) -> Path | None:
    """Draws who holds what, clients by classes and by attributes; None for a store."""
    client_counts = holdings(program)
    if client_counts is None:
        return None
    data = program.data

    def panel(counts: np.ndarray, unit: str, names: tuple[str, ...]) -> Any:
        def draw_on(axes: Any) -> None:
            image = axes.imshow(counts.T, aspect="auto", cmap="Blues", vmin=0)
            axes.set_title(f"Examples by {unit}", loc="left")
            axes.set_xlabel("client")
            axes.set_ylabel(unit)
            axes.grid(False)
            if len(names) <= _MOST_ROWS:
                axes.set_yticks(range(len(names)), [name[:16] for name in names])
            axes.figure.colorbar(image, ax=axes)

        return draw_on

    folder.mkdir(parents=True, exist_ok=True)
    classes = tuple(map(str, range(data.num_classes)))
    return figures.panels(
        folder / PLANNED,
        [
            panel(client_counts.by_class, "class", classes),
            panel(client_counts.by_attribute, "attribute", data.game.attributes.names),
        ],
    )
