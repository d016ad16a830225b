"""One study: every client of some rounds, exactly and by each estimator."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng, shapley
from fedsvp_jax.algorithm import client, privacy_estimation
from fedsvp_jax.algorithm.cohort import sample_cohort
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import Program, build, loading
from fedsvp_jax.federation import plan as plans
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder, plain, write_json
from fedsvp_jax.structs import Array
from fedsvp_jax.tree import cell_of

from .. import command
from ..attack.resumable import finished_or_made
from ..text_table import aligned

REPORTED = (
    "ratio_error",
    "value_error",
    "covered",
    "ratio_covered",
    "margin",
    "trainings",
    "steps",
)


class Compared(NamedTuple):
    """An estimator: `additive`, `paired` or `orders`, and its number M."""

    name: str
    number: int

    @classmethod
    def named(cls, text: str) -> "Compared":
        """From NAME:M.

        Raises:
          ValueError: it is no such text, or M does not fit the estimator.
        """
        name, _, number = text.partition(":")
        if name not in ("additive", "paired", "orders") or not number.isdigit():
            raise ValueError(
                "estimators must be additive:M, paired:M or orders:M with a number M, "
                f"got {text!r}"
            )
        if name == "orders":
            if int(number) < 1:
                raise ValueError(f"orders:M needs M of at least 1, got {text!r}")
            return cls(name, int(number))
        chosen = shapley.ShapleySettings(shapley=name, shapley_trainings=int(number))
        shapley.check_settings(chosen, shapley.MAX_EXACT)
        return cls(name, int(number))

    def __str__(self) -> str:
        return f"{self.name}:{self.number}"


def round_numbers(texts: Sequence[str]) -> list[int]:
    """The rounds, ascending.

    Raises:
      ValueError: one is no number of at least 1.
    """
    bad = [text for text in texts if not text.isdigit() or int(text) < 1]
    if bad or not texts:
        raise ValueError(f"rounds must be numbers of at least 1, got {bad or texts}")
    return sorted({int(text) for text in texts})


def estimates(program: Program, state: Any, round_num: Array) -> Any:
    """(K,) the cohort, its estimations by the program's estimator, and their steps."""
    made = program.plan
    cell = cell_of(program.cells, 0)
    key = prng.round_key(cell.root, round_num)
    clients = cohort(program, key)

    def one(client_id: Array) -> Any:
        held = cell_of(cell.split, client_id)
        _, _, found = client.estimate(
            program.model,
            made,
            cell.rates,
            state.params,
            state.stats,
            program.data.examples,
            held,
            key=key,
            client_id=client_id,
            lane_axes=(),
        )
        steps = privacy_estimation.training_steps(
            made.recipe,
            made.estimation,
            program.data.examples,
            held,
            pairs_key=prng.stream_key(key, prng.Stream.COALITIONS, client_id),
        )
        return found, steps

    return clients, *jax.lax.map(one, clients)


def cohort(program: Program, key: Array) -> Array:
    """(K,) int32: the clients that a run samples in the round of the key."""
    plan = program.plan
    return sample_cohort(
        prng.stream_key(key, prng.Stream.COHORT), plan.num_clients, plan.cohort_size
    )


def by_orders(utilities: Array, number: int, key: Array) -> tuple[Array, int]:
    """(N,) values from random orders of a known game, and the trainings they cost."""
    num_attributes = utilities.shape[0].bit_length() - 1
    bits = 2 ** jnp.arange(num_attributes)
    asked = set()

    def utility(coalition: Array) -> Array:
        return jnp.asarray(utilities)[jnp.sum(jnp.where(coalition, bits, 0))]

    found = shapley.sampled_shapley(
        utility, num_attributes, num_permutations=number, key=key
    )
    for order in np.asarray(shapley.random_orders(num_attributes, number, key)):
        masks = np.cumsum(2**order)
        asked |= set(masks[:-1].tolist())
    return found.values, len(asked)


def study_round(
    program: Program,
    compiled: dict[str, Any],
    orders: Sequence[Compared],
    state: Any,
    round_num: int,
) -> list[dict[str, Any]]:
    """One row per client: exact values and every estimator's."""
    clients, exact, exact_steps = compiled["exact"](state, jnp.int32(round_num))
    private = program.plan.estimation.private_attribute
    found = {
        name: call(state, jnp.int32(round_num))
        for name, call in compiled.items()
        if name != "exact"
    }
    rows = []
    for place, client_id in enumerate(np.asarray(clients).tolist()):
        truth = cell_of(exact, place)
        local = int(exact_steps[place][-1])
        row: dict[str, Any] = {
            "client": client_id,
            "values": truth.shapley_values,
            "ratio": truth.contribution_ratio,
            "estimates": {},
        }
        for name, (_, estimation, steps) in found.items():
            mine = cell_of(estimation, place)
            extra = np.asarray(steps[place][steps[place] > 0])
            row["estimates"][name] = {
                "values": mine.shapley_values,
                "margins": mine.shapley_margins,
                "ratio": mine.contribution_ratio,
                "ratio_margin": mine.ratio_margin,
                "trainings": len(extra) - 1,
                "steps": (int(extra.sum()) - local) / max(local, 1),
            }
        for one in orders:
            key = jax.random.fold_in(jax.random.key(round_num), client_id)
            values, trainings = by_orders(truth.utilities, one.number, key)
            row["estimates"][str(one)] = {
                "values": values,
                "ratio": shapley.contribution_ratio(values, private),
                "trainings": trainings,
            }
        rows.append(row)
    return plain(jax.tree.map(lambda leaf: np.asarray(leaf)[()], rows))


def summarize(rows: Sequence[dict[str, Any]], name: str) -> dict[str, float | None]:
    """One estimator's row of the table, from the rows of some clients."""
    found = [row["estimates"][name] for row in rows]
    truth = np.asarray([row["values"] for row in rows])
    values = np.asarray([one["values"] for one in found])
    ratios = np.asarray([row["ratio"] for row in rows])
    mine = np.asarray([one["ratio"] for one in found])
    summary: dict[str, float | None] = {
        "ratio_error": float(np.mean(np.abs(mine - ratios))),
        "value_error": float(np.sqrt(np.mean((values - truth) ** 2))),
        "trainings": float(np.mean([one["trainings"] for one in found])),
        **dict.fromkeys(("covered", "ratio_covered", "margin", "steps")),
    }
    if "steps" in found[0]:
        summary["steps"] = float(np.mean([one["steps"] for one in found]))
    margins = np.asarray([one.get("margins") or [None] for one in found], np.float64)
    if margins.shape == values.shape and not np.isnan(margins).any():
        # A hair wider: values and margins were rounded to float32.
        summary["covered"] = float(np.mean(np.abs(values - truth) <= margins + 1e-6))
        summary["margin"] = float(np.mean(margins))
        wide = np.asarray([one["ratio_margin"] for one in found], np.float64)
        known = ~np.isnan(wide)
        # R is clipped to [0, 1]; an interval around a clipped R is that of its values.
        inside = np.abs(mine - ratios) <= wide + 1e-6
        summary["ratio_covered"] = (
            float(np.mean(inside[known])) if known.any() else None
        )
    return summary


def run(
    config: ExperimentConfig,
    compared: Sequence[Compared],
    rounds: Sequence[int],
    output_dir: str,
    *,
    resume: bool,
) -> None:
    """Runs the study, prints the table and writes the files of the manual.

    Raises:
      ValueError: settings and data do not fit together, or the folder holds another
        study.
    """
    data = loading.load_dataset(config)
    exact = dataclasses.replace(config, shapley="exact")
    shapley.check_settings(exact, config.num_attributes)
    trainer = Trainer(build([exact], data))
    program = trainer.program
    compiled: dict[str, Any] = {"exact": jax.jit(partial(estimates, program))}
    for one in compared:
        if one.name == "orders":
            continue
        settings = dataclasses.replace(
            config, shapley=one.name, shapley_trainings=one.number
        )
        planned = build([settings], data, model=program.model)
        compiled[str(one)] = jax.jit(partial(estimates, planned))
    orders = [one for one in compared if one.name == "orders"]
    folder = RunFolder(output_dir)
    chosen = {"estimators": list(map(str, compared)), "rounds": list(rounds)}
    folder.start(
        plans.recorded_settings(config, data) | environment() | chosen, resume=resume
    )
    state, done = trainer.initial_state(), 0
    by_round = {}
    for round_num in rounds:
        file = folder.path / "pieces" / f"{round_num}.json"
        if not file.exists():
            while done < round_num - 1:
                state, _ = trainer.advance(state, done, 1)
                done += 1
        now = cell_of(state, 0)
        by_round[round_num] = finished_or_made(
            folder,
            str(round_num),
            partial(study_round, program, compiled, orders, now, round_num - 1),
        )
        print(f"round {round_num}: {len(by_round[round_num])} clients", flush=True)
    table = [
        {"round": number, "estimator": str(one), **summarize(rows, str(one))}
        for one in compared
        for number, rows in by_round.items()
    ]
    write_json(
        folder.path / "results.json",
        {
            "dataset": config.dataset,
            "model": config.model,
            "attributes": config.attributes,
            "num_attributes": config.num_attributes,
            "utility": config.utility,
            "clients": config.cohort_size,
            "table": table,
        },
    )
    print(terminal_table(table))
    command.print_files(folder.path / name for name in ("config.json", "results.json"))


def terminal_table(table: Sequence[dict[str, Any]]) -> str:
    """The results by estimator and round, for a terminal."""
    lines = [("estimator", "round", *REPORTED)]
    for row in table:
        cells = ["-" if row[name] is None else f"{row[name]:.3f}" for name in REPORTED]
        lines.append((row["estimator"], str(row["round"]), *cells))
    return aligned(lines)
