"""One study: every client of some rounds, exactly and by each estimator."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax import prng, shapley
from fedsvp_jax.algorithm.cohort import sample_cohort
from fedsvp_jax.algorithm.state import ServerState
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import Program, build, loading
from fedsvp_jax.federation import plan as plans
from fedsvp_jax.report.text_table import aligned
from fedsvp_jax.run.files import plain, write_json
from fedsvp_jax.tree import cell_of

from .. import command, flag_values
from . import games
from .games import Compared, Recorded

REPORTED = (
    "ratio_error",
    "value_error",
    "covered",
    "ratio_covered",
    "margin",
    "trainings",
    "steps",
)


def played(
    program: Program,
    record: Callable[[ServerState, Any, Any], Recorded],
    state: ServerState,
    round_num: int,
) -> list[Recorded]:
    """The games of a round's clients, by `games.record` with the keys of a run."""
    cell = cell_of(program.cells, 0)
    key = prng.round_key(cell.root, round_num)
    clients = sample_cohort(
        prng.stream_key(key, prng.Stream.COHORT),
        program.plan.num_clients,
        program.plan.cohort_size,
    )
    return [
        jax.device_get(record(state, jnp.int32(client), key))
        for client in np.asarray(clients).tolist()
    ]


def estimate_round(
    program: Program,
    compared: Sequence[Compared],
    repeats: int,
    calls: dict[str, Any],
    recorded: Sequence[Recorded],
    round_num: int,
) -> list[dict[str, Any]]:
    """One row per client: the exact values, and `repeats` of every estimator's."""
    private = program.plan.estimation.private_attribute
    key = prng.round_key(cell_of(program.cells, 0).root, round_num)
    rows = []
    for client in recorded:
        pairs_key = prng.stream_key(key, prng.Stream.COALITIONS, client.client)
        draws = jax.vmap(lambda i, k=pairs_key: jax.random.fold_in(k, i))(
            jnp.arange(repeats)
        )
        exact = calls["exact"](client, draws[:1])[0].values[0]
        row: dict[str, Any] = {
            "client": client.client,
            "values": exact,
            "ratio": shapley.contribution_ratio(exact, private),
            "estimates": {},
        }
        for one in compared:
            found, trainings, steps = calls[str(one)](client, draws)
            row["estimates"][str(one)] = {
                "values": found.values,
                "margins": found.margins,
                "ratio": shapley.contribution_ratio(found.values, private),
                "trainings": trainings,
                "steps": steps / max(client.steps[-1], 1),
            }
        rows.append(row)
    return plain(jax.tree.map(lambda leaf: np.asarray(leaf)[()], rows))


def summarize(
    rows: Sequence[dict[str, Any]], name: str, private: int
) -> dict[str, float | None]:
    """One estimator's row of the table, from the rows of a round's clients."""
    found = [row["estimates"][name] for row in rows]
    truth = np.asarray([row["values"] for row in rows])[:, None]  # (K, 1, N)
    values = np.asarray([one["values"] for one in found])  # (K, repeats, N)
    ratios = np.asarray([row["ratio"] for row in rows])[:, None]
    mine = np.asarray([one["ratio"] for one in found])
    summary: dict[str, float | None] = {
        "ratio_error": float(np.mean(np.abs(mine - ratios))),
        "value_error": float(np.sqrt(np.mean((values - truth) ** 2))),
        "trainings": float(np.mean([one["trainings"] for one in found])),
        "steps": float(np.mean([one["steps"] for one in found])),
        **dict.fromkeys(("covered", "ratio_covered", "margin")),
    }
    if any(one["margins"] is None for one in found):
        return summary
    margins = np.asarray([one["margins"] for one in found], np.float64)
    if np.isnan(margins).any():
        return summary
    # A hair wider: values and margins are rounded to float32. The sum of the values is
    # known, so the interval of R holds the exact R where that of its value does.
    covered = np.abs(values - truth) <= margins + 1e-6
    summary["covered"] = float(np.mean(covered))
    summary["ratio_covered"] = float(np.mean(covered[:, :, private]))
    summary["margin"] = float(np.mean(margins))
    return summary


def run(
    values: flags.FlagValues,
    config: ExperimentConfig,
    compared: Sequence[Compared],
    rounds: Sequence[int],
) -> None:
    """Runs the study, prints the table and writes the files of the manual.

    Raises:
      ValueError: settings and data do not fit together, or the folder holds another
        study.
    """
    data = loading.load_dataset(config)
    trainer = Trainer(build([config], data))
    program = trainer.program
    record = jax.jit(partial(games.record, program))
    calls: dict[str, Any] = {}
    for one in (Compared("exact", 0), *compared):
        name = "exact" if one.name == "exact" else str(one)
        call = partial(games.play, program, one)
        calls[name] = jax.jit(jax.vmap(call, in_axes=(None, 0)))
    folder = command.start_folder(
        values, plans.recorded_settings(config, data), rounds=list(rounds)
    )
    state, done = trainer.initial_state(), 0
    by_round, added = {}, {}
    for round_num in rounds:
        file = folder.path / "games" / f"{round_num}.npz"
        if not file.exists():
            while done < round_num - 1:
                state, _ = trainer.advance(state, done, 1)
                done += 1
            games.save(file, played(program, record, cell_of(state, 0), round_num - 1))
        by_round[round_num] = estimate_round(
            program, compared, values.repeats, calls, games.load(file), round_num - 1
        )
        added[round_num] = float(
            np.mean([np.sum(row["values"]) for row in by_round[round_num]])
        )
        print(f"round {round_num}: {len(by_round[round_num])} clients", flush=True)
    private = program.plan.estimation.private_attribute
    table = [
        {"round": number, "estimator": str(one), **summarize(rows, str(one), private)}
        for one in compared
        for number, rows in by_round.items()
    ]
    write_json(
        folder.path / "results.json",
        {
            "command": flag_values.typed_command(
                "shapley", values, without=("data_dir", "output_dir", "resume")
            ),
            "dataset": config.dataset,
            "model": config.model,
            "attributes": config.attributes,
            "num_attributes": config.num_attributes,
            "utility": config.utility,
            "epsilon": config.epsilon,
            "l2_norm_clip": config.l2_norm_clip,
            "seed": config.seed,
            "added": added,
            "clients": config.cohort_size,
            "repeats": values.repeats,
            "table": table,
        },
    )
    print(terminal_table(table))
    command.print_files(folder.path / name for name in ("config.json", "results.json"))


def terminal_table(table: Sequence[dict[str, Any]]) -> str:
    """The results by estimator and round, for a terminal."""
    lines = []
    for row in table:
        cells = {
            name: "-" if row[name] is None else f"{row[name]:.3f}" for name in REPORTED
        }
        lines.append(
            {"estimator": row["estimator"], "round": str(row["round"]), **cells}
        )
    return aligned(lines)
