"""The contribution ratio read off the noise: the leak of FedSVA, measured.

The server reads the noise scale off every upload of FedSVA, solves the
printed formula for the contribution ratio R, and is compared with the client's true
R, once for every way in which R may reach the noise (contribution_release). It knows
the broadcast model and all settings, and nothing else.

"least" is the error that a release leaves to anybody who reads no more than the noise
scale. Who knows which ratios there are, but not whose, errs by E|R - median| without
an upload, and what an (e, 0)-private release tells keeps at least exp(-e) of that.
R itself (none) has no e and leaves nothing; R fixed at 1 (worst_case) has e = 0.

Written to --output_dir: config.json, results.json (the table and every upload). The
work takes seconds, in one go and on one device; --resume repeats it.
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

from fedsvp_jax import attacks, mechanisms, prng
from fedsvp_jax.algorithm import aggregation, cohort, privacy_estimation
from fedsvp_jax.algorithm.state import ServerState
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.devices import lanes
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import build, loading, plan
from fedsvp_jax.mechanisms import MechanismConfig
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder, write_json
from fedsvp_jax.structs import Array, NoiseInfo, Params
from fedsvp_jax.tree import cell_of

from .pieces import refuse_flags

DEFAULTS = {"num_rounds": 5}


def define_flags() -> None:
    """None of its own."""


class Trained(NamedTuple):
    """The cohort after local training, before any noise; leading axis (K,)."""

    updates: Params
    stats: Params
    contribution_ratio: Array  # (K,) float32: the true R


class Received(NamedTuple):
    """What the server holds after a round; leading axis (K,) in the first three."""

    uploads: Params  # noised models w_i + N(0, σ_i²)
    released_ratio: Array  # (K,) float32: the R that the noise was made from
    noise: NoiseInfo
    params: Params  # the next broadcast
    stats: Params


def check(config: ExperimentConfig) -> None:
    """Refuses settings under which no upload has a noise scale that follows R."""
    if config.mechanism != "fedsva":
        raise ValueError(
            "mechanism must be fedsva, whose noise formula the attack solves for R, "
            f"got {config.mechanism!r}"
        )
    if config.sensitivity == "per_example":
        raise ValueError(
            "sensitivity must be paper, weight_clip or update_clip, got "
            "'per_example': its noise is in the local steps, not on the upload"
        )


def sampled_cohort(trainer: Trainer, round_num: int) -> Array:
    """(K,) int32: the clients that a run with these settings would ask."""
    key = prng.round_key(cell_of(trainer.cells, 0).root, round_num)
    return cohort.sample_cohort(
        prng.stream_key(key, prng.Stream.COHORT),
        trainer.program.plan.num_clients,
        trainer.program.plan.cohort_size,
    )


def train_cohort(
    trainer: Trainer, clients: Array, params: Params, stats: Params, round_num: Array
) -> Trained:
    """Local training and privacy estimation, with the keys that a run uses."""
    plan, cell = trainer.program.plan, cell_of(trainer.cells, 0)
    key = prng.round_key(cell.root, round_num)

    def one(client: Array) -> Trained:
        trained, new_stats, estimation = privacy_estimation.estimate_contribution(
            trainer.program.model,
            plan.recipe,
            cell.rates,
            plan.coalitions,
            params,
            stats,
            trainer.program.data.examples,
            cell_of(cell.split, client),
            key=prng.stream_key(key, prng.Stream.LOCAL_TRAINING, client),
            num_attributes=plan.num_attributes,
            private_attribute=plan.private_attribute,
            empty_utility=plan.empty_utility,
            validation_batch_size=plan.validation_batch_size,
            lane_axes=(lanes.LANE,),
        )
        update = jax.tree.map(jnp.subtract, trained, params)
        return Trained(update, new_stats, estimation.contribution_ratio)

    return jax.vmap(one, axis_name=lanes.LANE)(clients)


def upload_cohort(
    trainer: Trainer,
    settings: MechanismConfig,
    clients: Array,
    params: Params,
    trained: Trained,
    round_num: Array,
) -> Received:
    """Release of R, noise and average, with the keys that a run uses."""
    cell = cell_of(trainer.cells, 0)
    key = prng.round_key(cell.root, round_num)
    mechanism = mechanisms.make_mechanism("fedsva", settings)
    num_examples = cell.split.num_train[clients]
    weights = aggregation.client_weights(
        num_examples, clients >= 0, uniform=trainer.program.plan.uniform_weights
    )

    def one(
        client: Array, update: Params, ratio: Array, size: Array
    ) -> tuple[Params, Array, NoiseInfo]:
        told = mechanisms.release_contribution(
            ratio,
            settings,
            key=prng.stream_key(key, prng.Stream.CONTRIBUTION_RELEASE, client),
        )
        noised, _, info = mechanism.update(
            update,
            mechanism.init(trainer.program.plan.num_clients),
            key=prng.stream_key(key, prng.Stream.NOISE, client),
            num_examples=size,
            contribution_ratio=told,
            round_num=round_num,
            params=params,
        )
        return noised, told, info

    noised, told, info = jax.vmap(one)(
        clients, trained.updates, trained.contribution_ratio, num_examples
    )
    weighted = jax.vmap(aggregation.weighted)((noised, trained.stats), weights)
    moved, stats = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), weighted)
    return Received(
        uploads=jax.tree.map(lambda w, u: w[None] + u, params, noised),
        released_ratio=told,
        noise=info,
        params=optax.apply_updates(params, moved),
        stats=stats,
    )


def attack_release(
    trainer: Trainer, train: Any, state: ServerState, release: str
) -> list[dict[str, Any]]:
    """A row for each upload of a run under one release.

    Args:
      train: `train_cohort` of this trainer, compiled: no release changes it.
      state: before round 0.
    """
    config = trainer.program.configs[0]
    settings = dataclasses.replace(
        trainer.program.mechanism_configs[0], contribution_release=release
    )
    upload = jax.jit(partial(upload_cohort, trainer, settings))
    params, stats, rows = state.params, state.stats, []
    for round_num in range(config.num_rounds):
        clients = sampled_cohort(trainer, round_num)
        trained = train(clients, params, stats, jnp.int32(round_num))
        received = upload(clients, params, trained, jnp.int32(round_num))
        for place, client in enumerate(np.asarray(clients)):
            found = attacks.recover_contribution_ratio(
                cell_of(received.uploads, place),
                params,
                epsilon=config.epsilon,
                delta=config.delta,
                sensitivity=float(received.noise.sensitivity[place]),
            )
            row = {
                "release": release,
                "round": round_num + 1,
                "client": client,
                "noise_std": received.noise.noise_std[place],
                "recovered_noise_std": found.noise_std,
                "contribution_ratio": trained.contribution_ratio[place],
                "released_ratio": received.released_ratio[place],
                "recovered_ratio": found.contribution_ratio,
                "standard_error": found.standard_error,
            }
            rows.append(jax.tree.map(lambda leaf: np.asarray(leaf)[()], row))
        params, stats = received.params, received.stats
    return rows


def release_epsilon(config: ExperimentConfig, release: str) -> float:
    """ε of what one upload's noise scale tells about R."""
    fixed = {"none": math.inf, "worst_case": 0.0}
    return fixed.get(release, config.release_epsilon)


def summarize(rows: list[dict[str, Any]], epsilon: float) -> dict[str, Any]:
    """One release's line of the table, from its uploads."""
    column = {name: np.asarray([row[name] for row in rows]) for name in rows[0]}
    truth = column["contribution_ratio"].astype(np.float64)
    misses = column["recovered_noise_std"] / column["noise_std"] - 1
    guess = float(np.mean(np.abs(truth - np.median(truth))))
    return {
        "release": rows[0]["release"],
        "epsilon": epsilon,
        "uploads": len(rows),
        "std_relative_error": float(np.mean(np.abs(misses))),
        "ratio_error": float(np.mean(np.abs(column["recovered_ratio"] - truth))),
        "ratio_standard_error": float(np.mean(column["standard_error"])),
        "guess_error": guess,
        "least_error": math.exp(-epsilon) * guess,
    }


def format_table(rows: list[dict[str, Any]], expected: float) -> str:
    """The table for a terminal."""
    head = ("release", "its e", "|std error|", "1/sqrt(2d)", "|R error|", "least")
    lines = [head] + [
        (
            row["release"],
            f"{row['epsilon']:g}",
            f"{row['std_relative_error']:.2e}",
            f"{expected:.2e}",
            f"{row['ratio_error']:.3f}",
            f"{row['least_error']:.3f}",
        )
        for row in rows
    ]
    return "\n".join(
        f"{name:<20}" + "".join(f"{text:>13}" for text in rest) for name, *rest in lines
    )


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Every release attacked on the same trained cohorts."""
    refuse_flags(values, ["contribution_release"], "the attack tries every one")
    check(config)
    data = loading.load_dataset(config)
    trainer = Trainer(build([config], data))
    folder = RunFolder(values.output_dir)
    chosen = {"attack": values.attack, "contribution_release": RELEASES}
    folder.start(
        plan.recorded_settings(config, data) | environment() | chosen,
        resume=values.resume,
    )
    train = jax.jit(partial(train_cohort, trainer))
    state = cell_of(trainer.initial_state(), 0)
    uploads, table = [], []
    for release in RELEASES:
        rows = attack_release(trainer, train, state, release)
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
    print(format_table(table, expected))
    print(
        f"uploads a release: {table[0]['uploads']}; to name the median R of "
        f"{table[0]['release']} for everybody errs by {table[0]['guess_error']:.3f}"
    )
    print(f"files:\n  {folder.path}/config.json\n  {folder.path}/results.json")
