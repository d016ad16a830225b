"""Noise scale: the contribution ratio is read from the noise of FedSVA's uploads.

The server estimates the noise scale of every FedSVA upload, solves the printed formula
for the contribution ratio R, and its answer is compared with the client's true R. This
is repeated for every way in which R may reach the noise (--contribution_release). The
server knows the broadcast model and all settings, and nothing else.

"smallest" is the smallest error that a release guarantees against anybody who reads
only the noise scale. Whoever knows the ratios that occur, but not whose they are, errs
by E|R - median| without any upload; a release that is (e, 0)-private keeps at least
exp(-e) of that error. R itself (none) has no finite e and guarantees nothing; R fixed
at 1 (worst_case) has e = 0.

Written to --output_dir: config.json, results.json (the table and every upload). The
work takes seconds on one device; --resume repeats it from the start.
"""

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import flags

from fedsvp_jax import attacks, prng, tree
from fedsvp_jax.algorithm import aggregation, client, cohort
from fedsvp_jax.algorithm.privacy_estimation import estimate_contribution
from fedsvp_jax.algorithm.state import ServerState
from fedsvp_jax.algorithm.task import rates_of_round
from fedsvp_jax.common_settings import NoiseSettings
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.devices import lanes
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import build, loading, plan
from fedsvp_jax.mechanisms import MechanismConfig
from fedsvp_jax.prng import Address
from fedsvp_jax.run.files import write_json
from fedsvp_jax.structs import Array, NoiseInfo, Params, Weights
from fedsvp_jax.tree import cell_of

from .. import command, flag_values, printed

DEFAULTS = {"num_rounds": 5}
_RELEASES = NoiseSettings.__dataclass_fields__["contribution_release"].metadata[
    "choices"
]


def define_flags() -> None:
    """This attack has no flags beyond the settings."""


class Received(NamedTuple):
    """What the server receives in a round, and what it asks for; leading axis (K,)."""

    updates: Params  # noised: w_i + N(0, σ_i²) less the broadcast model
    stats: Params
    contribution_ratio: Array  # (K,) float32: the true R
    released_ratio: Array  # (K,) float32: the R that set the noise
    noise: NoiseInfo


def check(config: ExperimentConfig) -> None:
    """Refuses settings under which no upload has a noise scale that follows R."""
    if config.mechanism != "fedsva":
        raise ValueError(
            "mechanism must be fedsva (the attack solves its noise formula for R), got "
            f"{config.mechanism!r}"
        )
    if config.clip.in_steps:
        raise ValueError(
            "sensitivity must be paper, weight_clip or update_clip, got "
            "'per_example', which adds noise to the local steps, not to the upload"
        )


def sampled_cohort(trainer: Trainer, round_num: int) -> Array:
    """(K,) int32: the clients that a run with these settings would sample."""
    key = prng.round_key(cell_of(trainer.cells, 0).root, round_num)
    return cohort.sample_cohort(
        prng.stream_key(key, prng.Stream.COHORT),
        trainer.program.plan.num_clients,
        trainer.program.plan.cohort_size,
    )


def cohort_round(
    trainer: Trainer,
    settings: MechanismConfig,
    state: ServerState,
    clients: Array,
    round_num: Array,
) -> tuple[Received, ServerState]:
    """The cohort's uploads, with the keys that a run uses, and the state after them."""
    program = trainer.program
    cell = dataclasses.replace(cell_of(trainer.cells, 0), mechanism=settings)
    key = prng.round_key(cell.root, round_num)

    def one(client_id: Array) -> Received:
        at = Address(key, client_id, round_num, (lanes.LANE,))
        (update, stats, _), (_, metrics, _) = client.client_round(
            program.model,
            program.plan,
            cell,
            state,
            program.data.examples,
            client_id,
            jnp.float32(1),
            at,
        )
        found = metrics.estimation
        if found is None:  # no noise follows R, which the client has all the same
            _, found = estimate_contribution(
                program.model,
                program.plan.recipe,
                rates_of_round(program.plan, cell, round_num),
                program.plan.estimation,
                Weights(state.params, state.stats),
                program.data.examples,
                cell_of(cell.split, client_id),
                at,
            )
        return Received(
            update,
            stats,
            found.contribution_ratio,
            metrics.released_ratio,
            metrics.noise,
        )

    received = jax.vmap(one, axis_name=lanes.LANE)(clients)
    weights = aggregation.client_weights(
        cell.split.num_train[clients],
        clients >= 0,
        uniform=program.plan.uniform_weights,
    )
    weighted = jax.vmap(aggregation.weighted)(received[:2], weights)
    moved, stats = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), weighted)
    params = optax.apply_updates(state.params, moved)
    return received, dataclasses.replace(state, params=params, stats=stats)


def attack_release(
    trainer: Trainer, state: ServerState, release: str
) -> list[dict[str, Any]]:
    """One row per upload of a run under one release, from the state before round 0."""
    config = trainer.program.configs[0]
    settings = dataclasses.replace(
        trainer.program.mechanism_configs[0], contribution_release=release
    )
    advance = jax.jit(partial(cohort_round, trainer, settings))
    rows = []
    for round_num in range(config.num_rounds):
        clients = sampled_cohort(trainer, round_num)
        received, after = advance(state, clients, jnp.int32(round_num))
        for place, client_id in enumerate(np.asarray(clients)):
            recovered = attacks.recover_contribution_ratio(
                optax.apply_updates(state.params, cell_of(received.updates, place)),
                state.params,
                epsilon=config.epsilon,
                delta=config.delta,
                sensitivity=float(received.noise.sensitivity[place]),
            )
            row = {
                "release": release,
                "round": round_num + 1,
                "client": client_id,
                "noise_std": received.noise.noise_std[place],
                "recovered_noise_std": recovered.noise_std,
                "contribution_ratio": received.contribution_ratio[place],
                "released_ratio": received.released_ratio[place],
                "recovered_ratio": recovered.contribution_ratio,
                "standard_error": recovered.standard_error,
            }
            rows.append(jax.tree.map(lambda leaf: np.asarray(leaf)[()], row))
        state = after
    return rows


def release_epsilon(config: ExperimentConfig, release: str) -> float:
    """ε of what the noise scale of one upload reveals about R."""
    fixed = {"raw": math.inf, "worst_case": 0.0}
    return fixed.get(release, config.release_epsilon)


def summarize(rows: list[dict[str, Any]], epsilon: float) -> dict[str, Any]:
    """One release's row of the table, from its uploads."""
    column = {name: np.asarray([row[name] for row in rows]) for name in rows[0]}
    truth = column["contribution_ratio"].astype(np.float64)
    relative_errors = column["recovered_noise_std"] / column["noise_std"] - 1
    guess = float(np.mean(np.abs(truth - np.median(truth))))
    return {
        "release": rows[0]["release"],
        "epsilon": epsilon,
        "uploads": len(rows),
        "std_relative_error": float(np.mean(np.abs(relative_errors))),
        "ratio_error": float(np.mean(np.abs(column["recovered_ratio"] - truth))),
        "ratio_standard_error": float(np.mean(column["standard_error"])),
        "guess_error": guess,
        "least_error": math.exp(-epsilon) * guess,
    }


def terminal_table(rows: list[dict[str, Any]], expected: float) -> str:
    """Errors of the noise scale and of R by release, for a terminal.

    Args:
      rows: one per release.
      expected: relative error of the std that is expected, 1/sqrt(2d).
    """
    return printed.table(
        [
            {
                "release of R": row["release"],
                "its ε": f"{row['epsilon']:g}",
                "relative error of the std": f"{row['std_relative_error']:.2e}",
                "expected: 1/sqrt(2d)": f"{expected:.2e}",
                "error of R": f"{row['ratio_error']:.3f}",
                "smallest": f"{row['least_error']:.3f}",
            }
            for row in rows
        ]
    )


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Attacks every release of R on the same trained cohorts."""
    flag_values.refuse_flags(
        values, ["contribution_release"], "the attack tries all its values"
    )
    check(config)
    data = loading.load_dataset(config)
    trainer = Trainer(build([config], data))
    folder = command.start_folder(
        values,
        plan.recorded_settings(config, data),
        attack=values.attack,
        contribution_release=_RELEASES,
    )
    state = cell_of(trainer.initial_state(), 0)
    uploads, table = [], []
    for release in _RELEASES:
        rows = attack_release(trainer, state, release)
        uploads += rows
        table.append(summarize(rows, release_epsilon(config, release)))
    size = tree.num_parameters(state.params)
    expected = 1 / math.sqrt(2 * size)
    write_json(
        folder.path / "results.json",
        {
            "attack": values.attack,
            "num_parameters": size,
            "expected_std_relative_error": expected,
            "releases": table,
            "uploads": uploads,
        },
    )
    print(terminal_table(table, expected))
    print(
        f"{table[0]['uploads']} uploads per release; guessing the median R of "
        f"{table[0]['release']} for every client errs by {table[0]['guess_error']:.3f}"
    )
    command.print_files(folder.path / name for name in ("config.json", "results.json"))
