"""One study: every client of some rounds, exactly and by each estimator."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng, shapley
from fedsvp_jax.algorithm import (
    estimators,
    evaluation,
    local_training,
    privacy_estimation,
)
from fedsvp_jax.algorithm.cohort import sample_cohort
from fedsvp_jax.algorithm.state import ServerState
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import Program, build, loading
from fedsvp_jax.federation import plan as plans
from fedsvp_jax.report.text_table import aligned
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder, plain, write_json
from fedsvp_jax.structs import Array, Split
from fedsvp_jax.tree import cell_of

from .. import command
from ..attack.resumable import finished_or_made

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


class Recorded(NamedTuple):
    """What one client's coalitions are worth, all of them trained once."""

    logits: Array  # (2**N, v, c): of every coalition's model, by bitmask
    counts: Array  # (N,) int32: training examples by attribute
    steps: Array  # (2**N,) int32: SGD steps of each training
    held: Split  # the client's row


@dataclasses.dataclass(frozen=True)
class RecordedValidation(evaluation.Validation):
    """Validation of models that are named by their coalition's bitmask."""

    recorded: Array | None = None  # (2**N, v, c) logits

    def logits(self, params: Any, stats: Any) -> Array:
        """(v, c): those of the coalition with the bitmask `params`."""
        del stats
        return self.recorded[params]  # type: ignore[index]

    def utility(self, params: Any, stats: Any) -> Array:
        """() float32: the worth of that coalition's model."""
        return self.utility_of(self.logits(params, stats))

    def logits_shape(self, params: Any, stats: Any) -> tuple[int, int]:
        """(v, c)."""
        del params, stats
        _, validation, classes = self.recorded.shape  # type: ignore[union-attr]
        return validation, classes


def record(
    program: Program, state: ServerState, client_id: Array, key: Array
) -> Recorded:
    """Trains every coalition of a client, with the keys that a run uses."""
    plan, cell = program.plan, cell_of(program.cells, 0)
    examples, held = program.data.examples, cell_of(cell.split, client_id)
    number = plan.estimation.num_attributes
    attributes = examples.attributes[held.train]
    valid = jnp.arange(held.train.shape[0], dtype=jnp.int32) < held.num_train
    counts = jnp.zeros((number,), jnp.int32).at[attributes].add(valid.astype(jnp.int32))
    validation = evaluation.Validation(
        program.model,
        examples,
        held.validation,
        held.num_validation,
        batch_size=plan.estimation.validation_batch_size,
        lane_axes=(),
    )

    def one(coalition: Array) -> Array:
        trained = local_training.local_update(
            program.model,
            plan.recipe,
            cell.rates,
            state.params,
            state.stats,
            examples,
            held.train,
            privacy_estimation.coalition_members(attributes, coalition, valid),
            key=prng.stream_key(key, prng.Stream.LOCAL_TRAINING, client_id),
            batch_size=plan.recipe.batch_size,
            lane_axes=(),
        )
        return validation.logits(*trained)

    rows = jnp.asarray(estimators.coalition_rows(range(2**number), number))
    sizes = jnp.sum(jnp.where(rows, counts[None], 0), axis=1)
    per_epoch = local_training.steps_per_epoch(sizes, plan.recipe.batch_size)
    steps = plan.recipe.local_epochs * per_epoch
    return Recorded(jax.lax.map(one, rows), counts, steps, held)


def play(program: Program, one: Compared, client: Recorded, key: Array) -> Any:
    """(Values, trainings, steps) of one estimator, looked up instead of trained."""
    plan = program.plan.estimation
    number = plan.num_attributes
    masks = estimators.planned_coalitions(one.name, number)
    bits = 2 ** jnp.arange(number, dtype=jnp.int32)

    def mask_of(coalition: Array) -> Array:
        return jnp.sum(jnp.where(coalition, bits, 0))

    validation = RecordedValidation(
        program.model,
        program.data.examples,
        client.held.validation,
        client.held.num_validation,
        batch_size=plan.validation_batch_size,
        lane_axes=(),
        kind=plan.utility,
        recorded=client.logits,
    )
    broadcast: Any = (jnp.int32(0), {})
    game = estimators.Game(
        num_attributes=number,
        groups=((1, tuple(masks)),),
        batch_size=1,
        start=broadcast,
        train=lambda coalition, _: (mask_of(coalition), {}),
        validation=validation,
        counts=client.counts,
        empty=validation.utility(*broadcast)
        if plan.empty_utility == "initial"
        else jnp.float32(0),
    )
    trained = [client.steps[jnp.asarray(masks)]]
    match one.name:
        case "exact":
            _, found = estimators.exact(game)
        case "orders":
            _, exact = estimators.exact(game)
            return by_orders(exact.utilities, client.steps, one.number, key)
        case _:
            pairs = one.number // 2
            drawn = estimators.drawn_coalitions(one.name, key, game.held, pairs)[1]
            trained.append(client.steps[jax.vmap(mask_of)(drawn)])
            estimate = {
                "additive": estimators.additive,
                "paired": estimators.complementary,
            }[one.name]
            _, found = estimate(game, key, pairs)
    steps = jnp.concatenate(trained)
    return found, jnp.sum(steps > 0) - 1, jnp.sum(steps) - client.steps[-1]


def by_orders(utilities: Any, steps: Array, number: int, key: Array) -> Any:
    """(Values, trainings, steps) of random orders in a game that is known."""
    num_attributes = utilities.shape[0].bit_length() - 1
    bits = 2 ** jnp.arange(num_attributes, dtype=jnp.int32)

    def utility(coalition: Array) -> Array:
        return utilities[jnp.sum(jnp.where(coalition, bits, 0))]

    found = shapley.sampled_shapley(
        utility, num_attributes, num_permutations=number, key=key
    )
    orders = shapley.random_orders(num_attributes, number, key)
    asked = jnp.cumsum(bits[orders], axis=1)[:, :-1].ravel()
    trained = jnp.zeros(steps.shape, bool).at[asked].set(True) & (steps > 0)
    extra = jnp.where(trained, steps, 0)
    values = estimators.Values(found.values)
    return values, jnp.sum(trained), jnp.sum(extra)


def study_round(
    program: Program,
    compared: Sequence[Compared],
    repeats: int,
    calls: dict[str, Any],
    state: ServerState,
    round_num: int,
) -> list[dict[str, Any]]:
    """One row per client: the exact values, and `repeats` of every estimator's."""
    cell = cell_of(program.cells, 0)
    plan = program.plan
    key = prng.round_key(cell.root, round_num)
    private = plan.estimation.private_attribute
    clients = sample_cohort(
        prng.stream_key(key, prng.Stream.COHORT), plan.num_clients, plan.cohort_size
    )
    rows = []
    for client_id in np.asarray(clients).tolist():
        client = calls["record"](state, jnp.int32(client_id), key)
        pairs_key = prng.stream_key(key, prng.Stream.COALITIONS, client_id)
        draws = jax.vmap(lambda i, k=pairs_key: jax.random.fold_in(k, i))(
            jnp.arange(repeats)
        )
        exact = calls["exact"](client, draws[:1])[0].values[0]
        row: dict[str, Any] = {
            "client": client_id,
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
                "steps": steps / jnp.maximum(client.steps[-1], 1),
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
    config: ExperimentConfig,
    compared: Sequence[Compared],
    rounds: Sequence[int],
    output_dir: str,
    *,
    repeats: int,
    resume: bool,
) -> None:
    """Runs the study, prints the table and writes the files of the manual.

    Raises:
      ValueError: settings and data do not fit together, or the folder holds another
        study.
    """
    data = loading.load_dataset(config)
    trainer = Trainer(build([config], data))
    program = trainer.program
    calls: dict[str, Any] = {"record": jax.jit(partial(record, program))}
    for one in (Compared("exact", 0), *compared):
        name = "exact" if one.name == "exact" else str(one)
        call = partial(play, program, one)
        calls[name] = jax.jit(jax.vmap(call, in_axes=(None, 0)))
    folder = RunFolder(output_dir)
    chosen = {
        "estimators": list(map(str, compared)),
        "rounds": list(rounds),
        "repeats": repeats,
    }
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
        now = jax.device_get(cell_of(state, 0))  # advance consumes the state
        by_round[round_num] = finished_or_made(
            folder,
            str(round_num),
            partial(study_round, program, compared, repeats, calls, now, round_num - 1),
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
            "dataset": config.dataset,
            "model": config.model,
            "attributes": config.attributes,
            "num_attributes": config.num_attributes,
            "utility": config.utility,
            "clients": config.cohort_size,
            "repeats": repeats,
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
