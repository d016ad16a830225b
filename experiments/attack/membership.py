"""Membership inference: was an example in some client's training data?

The attacker sees the last round's global model, as every client and any observer does.
For each of --membership_examples labelled examples it asks whether some client trained
on it. --membership_shadows federations with different seeds are cells of one sweep.
They share the examples, and each client trains on a random --train_fraction of its
part, so an example is used by about half of the federations. Each federation is
attacked in turn. The likelihood-ratio attack (LiRA) uses the other federations as
models that the attacker trained itself; the loss threshold needs no other models.

The federations run without noise, and under --mechanism, or each of --mechanisms, at
each of --membership_epsilons. The models are made to remember: few examples, many local
epochs, and a fifth of random labels, which can only be memorised. AUC is the mean over
the attacked federations. TPR at a small FPR is taken over the scores of all federations
together. Both have a 95 % interval by a jackknife over the federations.

  fedsvp attack --attack=membership --dataset=digits \\
      --output_dir=runs/membership

A piece of the work is the sweep of a mechanism. The picture is roc.svg.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax.attacks import membership
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.prng import Stream
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.core.structs import Split
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.train_validation import dealt
from fedsvp_jax.federation import build, loading
from fedsvp_jax.federation.plan import recorded_settings
from fedsvp_jax.report import figures, labels, style
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.sweep import SweepPlan
from fedsvp_jax.run.trainer import Trainer

from .. import flag_values, printed
from . import upload_claims
from .work import Work

DEFAULTS = {
    "model": "mlp",
    "mechanism": "gaussian",
    "delta": 1e-5,
    "partition": "iid",
    "train_fraction": 0.5,
    "num_attributes": 1,
    "num_clients": 2,
    "num_hbc_clients": 0,
    "cohort_size": 2,
    "num_rounds": 20,
    "local_epochs": 5,
}
LABEL_NOISE = 0.2  # share of the examples whose label is drawn at random
ROC_POINTS = np.concatenate([[0.0], np.logspace(-4, 0, 81)])  # false positive rates


def define_flags() -> None:
    """Defines the examples, the federations and the models that are attacked."""
    flags.DEFINE_integer(
        "membership_shadows",
        16,
        "Number of federations; each is attacked with the help of the others.",
        lower_bound=5,
    )
    flags.DEFINE_integer(
        "membership_examples",
        300,
        "Number of examples whose membership is asked.",
        lower_bound=20,
    )
    flags.DEFINE_list(
        "membership_epsilons",
        "0.01,0.1,1,10",
        "Values of epsilon per upload at which mechanisms are attacked.",
    )


def subset(data: Dataset, count: int, label_noise: float, seed: int) -> Dataset:
    """`count` random training examples, a share of them with random labels."""
    rng = np.random.default_rng((seed, Stream.CANARY))
    rows = np.sort(rng.permutation(len(data.train_labels))[:count])
    labels = data.train_labels[rows].copy()
    noisy = rng.permutation(count)[: round(label_noise * count)]
    labels[noisy] = rng.integers(data.num_classes, size=len(noisy))
    return dataclasses.replace(
        data,
        train_inputs=data.train_inputs[rows],
        train_labels=labels,
        train_writers=None,
        columns={},
        test_columns={},
    )


def members(split: Split, num_examples: int) -> np.ndarray:
    """(cells, n) bool: whether some client of a cell trains on an example."""
    cells, num_clients = split.num_train.shape
    member = np.zeros((cells, num_examples), bool)
    clients, examples = dealt(split.train, split.num_train)
    member[clients // num_clients, examples] = True
    return member


def attack_sweep(configs: Sequence[ResolvedConfig], data: Dataset) -> list[Record]:
    """Trains the cells and attacks their models after the last round.

    Args:
      configs: the cells of one mechanism; cells of the same ε are adjacent.
      data: the examples in question are its training examples.

    Returns:
      One row per ε and attack.
    """
    shadows = len({config.seed for config in configs})
    num_rounds, name = configs[0].num_rounds, configs[0].mechanism
    placement = Placement(cell_chunk_size=shadows)
    trainer = Trainer(build(configs, data), placement=placement)
    program = trainer.program
    member = members(program.data.split, len(data.train_labels))
    inputs = preprocessing.normalize(jnp.asarray(data.train_inputs))
    true_labels = jnp.asarray(data.train_labels)

    @jax.jit
    @jax.vmap
    def scored(params: Any, stats: Any) -> tuple[jax.Array, jax.Array]:
        logits, _ = program.model.apply(params, stats, inputs, train=False, key=None)
        right = jnp.argmax(logits, axis=-1) == true_labels
        return membership.confidences(logits, true_labels), right

    state = trainer.initial_state()
    for number in progress_bar(range(num_rounds), name, unit="round", disable=None):
        state, metrics = trainer.advance(state, number, 1)
    phi, right = jax.device_get(scored(*state.weights))
    rows = []
    for start in range(0, len(configs), shadows):
        cells = slice(start, start + shadows)
        mask, hit = member[cells], right[cells]
        claim = upload_claims.least_noised(program.accounts[start])
        for name in membership.SCORES:
            roc = membership.roc(name, phi[cells], mask)
            fpr, tpr = roc.pop("curve")
            rows.append(
                {
                    "mechanism": configs[start].mechanism,
                    **claim,
                    "attack": name,
                    **roc,
                    "accuracy_members": float(hit[mask].mean()),
                    "accuracy_others": float(hit[~mask].mean()),
                    "test_accuracy": float(np.mean(metrics.test_accuracy[-1, cells])),
                    "tpr_at": np.interp(ROC_POINTS, fpr, tpr),
                }
            )
    return rows


def draw(path: pathlib.Path, rows: Sequence[Record]) -> None:
    """ROC curves, both axes logarithmic, one panel per attack."""

    def panel(axes: Any, attack: str) -> None:
        for row in rows:
            if row["attack"] == attack:
                name = f"{row['mechanism']}, ε = {labels.significant(row['epsilon'])}"
                axes.plot(ROC_POINTS[1:], row["tpr_at"][1:], label=name)
        axes.plot([1e-4, 1], [1e-4, 1], color=style.GREY, linestyle=":", label="guess")
        axes.set(
            title=attack,
            xlabel="false positive rate",
            ylabel="true positive rate",
            xlim=(1e-4, 1),
            ylim=(1e-4, 1.05),
        )
        for which in "xy":
            figures.log_axis(axes, which)

    figures.panels(
        path, [partial(panel, attack=attack) for attack in membership.SCORES]
    )


def prepare(values: flags.FlagValues, config: ResolvedConfig) -> Work:
    """The federations without noise, then those of the mechanisms."""
    flag_values.refuse_flags(
        values, ["epsilon"], "membership_epsilons gives its values"
    )
    full = loading.load_dataset(config)
    if values.membership_examples > len(full.train_labels):
        raise ValueError(
            f"membership_examples must be at most {len(full.train_labels)}, got "
            f"{values.membership_examples}"
        )
    data = subset(full, values.membership_examples, LABEL_NOISE, config.seed)
    plan = SweepPlan(
        mechanisms=tuple(
            dict.fromkeys(("none", *(values.mechanisms or [config.mechanism])))
        ),
        epsilons=flag_values.numbers("membership_epsilons", values.membership_epsilons),
        seeds=tuple(range(config.seed, config.seed + values.membership_shadows)),
    )
    sweeps = {name: plan.cells(config, name) for name in plan.mechanisms}
    for configs in sweeps.values():  # what cannot run is refused first
        Trainer(build(configs, data))

    def finish(rows_by_sweep: Record, folder: pathlib.Path) -> Record:
        rows = [row for rows in rows_by_sweep.values() for row in rows]
        draw(folder / "roc.svg", rows)
        printed.print_rows(
            "attack_membership.txt", rows, claim=upload_claims.claim_text
        )
        return {"false_positive_rates": ROC_POINTS, "rows": rows}

    return Work(
        data=full,
        settings=recorded_settings(config, data)
        | dataclasses.asdict(plan)
        | {"membership_label_noise": LABEL_NOISE},
        pieces={
            name: partial(attack_sweep, configs, data)
            for name, configs in sweeps.items()
        },
        finish=finish,
    )
