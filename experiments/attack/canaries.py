"""Canaries: ε measured in one training run of the real compiled round.

Canaries are planted in a federation of the built-in digits, half of them (by a coin)
take part, and one run is trained. The adversary scores every canary by how far the
model moved along its direction. Two numbers follow, beside the claimed ε:

    one run    a lower bound at 95 % from guesses about the coins (Steinke, Nasr and
               Jagielski 2023)
    one shot   an estimate with a 95 % interval from the cosines of the canaries that
               took part (Andrew et al. 2023)

What the adversary sees, and which canaries there are:

    final model   every client is in every cohort; the adversary sees the first and the
                  last model. A canary is a client
    each upload   cohorts of one client, so that the difference of two models is an
                  upload (with attribute_records: the answer that the server keeps is);
                  a promise of one upload's ε lets each client upload once. A canary is
                  a client, one record of a client (per_example), or its one private
                  record (attribute_records)

The claims are the ledger's, from the noise that was really applied. A bound above a
claim contradicts it (VIOLATED): Holm's test over the claims of all rows does so
wrongly with a probability of at most 5 %.

  python -m experiments.attack --attack=canaries --output_dir=runs/canaries

Written to --output_dir: config.json, pieces/ (one file per finished run, from which
--resume continues), results.json.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from absl import flags
from tqdm import tqdm

from fedsvp_jax.accounting import Account
from fedsvp_jax.attacks import canaries, one_run, one_shot
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data import sources
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import Program, build, plan
from fedsvp_jax.mechanisms import make_mechanism
from fedsvp_jax.report.text_table import markdown
from fedsvp_jax.run import records
from fedsvp_jax.run.files import write_json

from .. import command, flag_values, printed
from .audit_play import promise_of
from .audit_verdicts import beaten_claims
from .resumable import finished_or_made

DEFAULTS = {
    "num_rounds": 4,
    "delta": 1e-5,
    "batch_size": 4,
    "learning_rate": 0.5,
    "local_epochs": 2,
}
_RECORDS = 8  # examples of a canary client
_PUSH = 10.0  # a canary's gradient is so many times as long as the clip
_HONEST = 10  # clients that hold the digits, where canaries are clients


class Run(NamedTuple):
    """One training run: its name, its settings and its canaries."""

    name: str
    settings: dict[str, Any]
    sees: str  # "final model" or "each upload"
    canary: str  # "client" or "record"


_LOCAL = {"mechanism": "gaussian", "noise_std": 0.5}
_CLIPPED = _LOCAL | {"sensitivity": "update_clip", "relation": "add_remove"}
_ADAPTIVE = {"mechanism": "dp_fedavg", "adaptive_clip": True}
_DISCRETE = {
    "mechanism": "dp_fedavg",
    "noise_sampler": "discrete",
    "noise_bits": 20,
}
_SHARED = _CLIPPED | {"noise_trust": "secure_aggregation", "noise_std": 0.08}
_PRIVATE = {
    "mechanism": "gaussian",
    "noise_std": 0.15,
    "sensitivity": "attribute_records",
    "relation": "add_remove",
    "attributes": "column:record",
    "num_attributes": 2,
    "private_attribute": 1,
    "num_hbc_clients": 0,
}
RUNS = (
    Run("dp_fedavg", {"mechanism": "dp_fedavg"}, "final model", "client"),
    Run("dp_fedavg, adaptive clip", _ADAPTIVE, "final model", "client"),
    Run("gaussian, update_clip", _CLIPPED, "each upload", "client"),
    Run(
        "gaussian, per_example",
        _LOCAL | {"sensitivity": "per_example"},
        "each upload",
        "record",
    ),
    Run("gaussian, attribute_records", _PRIVATE, "each upload", "record"),
    Run("gaussian, shared noise", _SHARED, "final model", "client"),
    Run("dp_fedavg, discrete noise", _DISCRETE, "final model", "client"),
)


def define_flags() -> None:
    """Defines how many canaries there are."""
    flags.DEFINE_integer(
        "num_canaries", 150, "Canaries in each run.", lower_bound=10, upper_bound=150
    )
    flags.DEFINE_integer(
        "canary_dimension",
        8192,
        "d, weights of the model. Random directions in many dimensions are almost at "
        "right angles to one another.",
        lower_bound=640,
    )


def planted(
    run: Run, drawn: canaries.Canaries, config: ExperimentConfig
) -> canaries.Planted:
    """The digits with the run's canaries."""
    digits = sources.load("digits")
    push = _PUSH * float(config.l2_norm_clip)
    if run.canary == "record":
        left_out = config.relation == "add_remove"
        return canaries.plant_records(digits, drawn, push=push, left_out=left_out)
    return canaries.plant_clients(
        digits, drawn, num_honest=_HONEST, push=push, records=_RECORDS
    )


def run_settings(
    run: Run, config: ExperimentConfig, num_canaries: int
) -> ExperimentConfig:
    """The settings of a run; where uploads are seen, a promise allows one each."""
    clients = num_canaries + (_HONEST if run.canary == "client" else 0)
    whole = run.sees == "final model"
    common: dict[str, Any] = {
        "dataset": "digits",
        "partition": "by_writer",
        "split": "by_position",
        "num_attributes": 1,
        "num_clients": clients,
        "cohort_size": clients if whole else 1,
        "num_rounds": config.num_rounds if whole else clients,
        "eval_every": clients,
    }
    told = dataclasses.replace(config, **common | run.settings)
    if whole:
        return told
    mechanism = make_mechanism(told.mechanism, plan.mechanism_config(told))
    return dataclasses.replace(
        told, **dataclasses.asdict(promise_of(told, mechanism, uploads=1))
    )


class Trained(NamedTuple):
    """What the adversary saw of a run, and what was counted."""

    movements: np.ndarray  # (steps, d): of the model, or minus each private answer
    clients: np.ndarray  # (steps,) the first client of the cohort
    account: Account


def train(run: Run, program: Program) -> Trained:
    """Trains the program's one cell with its compiled rounds."""
    trainer = Trainer(program)
    config, account = program.configs[0], program.accounts[0]
    state = trainer.initial_state()
    before = np.asarray(state.params["w"][0])
    movements, clients = [], []
    for number in range(config.num_rounds):
        state, metrics = trainer.advance(state, number, 1)
        (row,) = records.rounds_of(metrics, 0)
        account = records.record_round(account, row)
        last = number + 1 == config.num_rounds
        if run.sees == "each upload" or last:
            after = np.asarray(state.params["w"][0])
            moved = after - before
            if program.plan.asked is not None:  # moves the model from now on
                moved = -np.asarray(state.answer[0][0]).reshape(moved.shape)
            movements.append(moved)
            before = after
            clients.append(int(row.clients.client_id[0]))
    return Trained(np.stack(movements), np.asarray(clients), account)


def scores(
    run: Run, planted: canaries.Planted, program: Program, trained: Trained
) -> tuple[np.ndarray, np.ndarray]:
    """The cosines of the canaries, (m,), and which of them had a chance to be seen.

    A canary that is a record has none where it is among its client's validation
    examples.
    """
    directions = planted.canaries.directions
    count = len(directions)
    rows = np.asarray(program.data.split.train[0])
    sizes = np.asarray(program.data.split.num_train[0])
    held = [part[:size] for part, size in zip(rows, sizes, strict=True)]
    writers = planted.dataset.train_writers
    assert writers is not None
    if run.sees == "final model":
        return canaries.cosines(directions, trained.movements[0]), np.ones(count, bool)
    cosines, seen = np.zeros(count), np.zeros(count, bool)
    for client, movement in zip(trained.clients, trained.movements, strict=True):
        writer = writers[held[client][0]]
        if writer < count:
            cosines[writer] = canaries.cosines(directions[[writer]], movement)[0]
            seen[writer] = True
    if run.canary == "record":  # the records come first in the data set
        seen &= np.isin(np.arange(count), np.concatenate(held))
    return cosines, seen


def run_row(
    run: Run, config: ExperimentConfig, num_canaries: int, dimension: int
) -> dict[str, Any]:
    """Trains a run and measures its ε."""
    told = run_settings(run, config, num_canaries)
    drawn = canaries.draw_canaries(num_canaries, dimension, config.seed)
    made = planted(run, drawn, told)
    program = build([told], made.dataset, model=made.model)
    trained = train(run, program)
    cosines, seen = scores(run, made, program, trained)
    inside, outside = cosines[seen & drawn.coins], cosines[seen & ~drawn.coins]
    delta = told.target_delta
    view = "observer" if program.mechanism.claim.central else "server"
    claims = {
        method: trained.account.epsilon_spent(method, view=view)
        for method in ("rdp", "pld")
    }
    return {
        "run": run.name,
        "sees": run.sees,
        "canary": run.canary,
        "canaries": [len(inside), len(outside)],
        "dimension": dimension,
        "uploads": int(trained.account.uploads.max()),
        "proved": trained.account.proved,
        "claims": claims,
        "one_run": one_run.lower_bound(inside, outside, delta=delta),
        "one_run_at_most": one_run.lower_bound(
            np.ones(len(inside)), np.zeros(len(outside)), delta=delta
        ),
        "one_shot": one_shot.estimate(inside, dimension, delta)._asdict(),
        "p_values": {
            method: one_run.p_value(inside, outside, epsilon=epsilon, delta=delta)
            for method, epsilon in claims.items()
        },
    }


def with_verdicts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with "holds" or "VIOLATED"."""
    return [
        row | {"status": "VIOLATED" if beaten else "holds"}
        for row, beaten in zip(rows, beaten_claims(rows), strict=True)
    ]


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Trains every run with its canaries."""
    flag_values.refuse_flags(
        values,
        (
            *("mechanism", "sensitivity", "relation", "noise_std", "adaptive_clip"),
            *("dataset", "partition", "split", "num_attributes", "total_epsilon"),
            *("num_clients", "cohort_size", "eval_every", "influence_filter"),
            *("attributes", "private_attribute", "num_hbc_clients", "noise_trust"),
        ),
        "the runs choose it themselves",
    )
    folder = command.start_folder(
        values,
        dataclasses.asdict(config),
        attack=values.attack,
        num_canaries=values.num_canaries,
        canary_dimension=values.canary_dimension,
    )
    rows = []
    for one in tqdm(RUNS, unit="run", disable=None):
        name = one.name.replace(", ", "-").replace(" ", "_")
        make = partial(
            run_row, one, config, values.num_canaries, values.canary_dimension
        )
        rows.append(finished_or_made(folder, name, make))
    results = {"attack": values.attack, "rows": with_verdicts(rows)}
    write_json(folder.path / "results.json", results)
    print(printed.table([*map(_line, results["rows"])]))
    command.print_files(folder.path / name for name in ("config.json", "results.json"))


def _line(row: dict[str, Any]) -> dict[str, str]:
    shot, (inside, outside) = row["one_shot"], row["canaries"]
    return {
        "run": row["run"],
        "canaries: in, out": f"{row['canary']}s: {inside}, {outside}",
        "the adversary sees": row["sees"],
        "uploads": str(row["uploads"]),
        "ε is": "proved" if row["proved"] else "nominal",
        "claimed ε: RDP": f"{row['claims']['rdp']:.3g}",
        "claimed ε: PLD": f"{row['claims']['pld']:.3g}",
        "one run ε ≥": f"{row['one_run']:.3g}",
        "one shot ε ≈": f"{shot['epsilon']:.3g} ({shot['low']:.3g} to "
        f"{shot['high']:.3g})",
        "verdict": row["status"],
    }


def page(results: dict[str, Any]) -> str:
    """The table of docs/attacks.md."""
    most = max(row["one_run_at_most"] for row in results["rows"])
    return (
        f"{markdown([*map(_line, results['rows'])])}\n"
        f'If every guess had been right, "one run" would have been {most:.2f} at most.'
    )
