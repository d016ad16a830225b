"""Membership inference on a federation's models: who was in the training data?

The attacker sees one round's global model (every client and any observer does) and
asks of each of --membership_examples examples, with its label, whether some client
trained on it. --membership_shadows federations with seeds of their own are cells of
one sweep: they share the examples, and each trains on a random --train_fraction of
every client's part, so an example is in for about half of them. Each is the target in
turn, and the others are what the attacker trained itself to compare with (LiRA); the
loss threshold needs no shadows.

Without noise, and under --mechanism at each of --membership_epsilons. Models are made
to remember: few examples, many local epochs, and --membership_label_noise of the
labels drawn at random, which can only be learned by heart. AUC is the mean over the
targets with a 95 % interval; TPR at a small FPR is over all targets' scores together.

  python -m experiments.attack --attack=membership --dataset=digits \\
      --output_dir=runs/membership

Written to --output_dir: config.json, pieces/ (a finished sweep each: --resume goes on
after the last), results.json, roc.png.
"""

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from tqdm import tqdm

from fedsvp_jax.attacks import membership
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import build, loading
from fedsvp_jax.federation.plan import recorded_settings
from fedsvp_jax.prng import Stream
from fedsvp_jax.report import figures
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder, write_json
from fedsvp_jax.run.sweep import SweepPlan
from fedsvp_jax.structs import Split

from .pieces import kept, refuse_flags

DEFAULTS = {
    "model": "mlp",
    "mechanism": "nbafl",
    "delta": 1e-5,
    "calibration": "analytic",
    "partition": "iid",
    "train_fraction": 0.5,
    "num_attributes": 1,
    "num_clients": 2,
    "num_hbc_clients": 0,
    "cohort_size": 2,
    "num_rounds": 20,
    "local_epochs": 5,
}
_POINTS = np.concatenate([[0.0], np.logspace(-4, 0, 81)])  # of a kept curve


def define_flags() -> None:
    """The population, the shadows and the models that are looked at."""
    flags.DEFINE_integer(
        "membership_shadows", 16, "Federations, each a target.", lower_bound=5
    )
    flags.DEFINE_integer(
        "membership_examples", 300, "Examples in question.", lower_bound=20
    )
    flags.DEFINE_float(
        "membership_label_noise",
        0.2,
        "Part of their labels that is drawn at random.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_list(
        "membership_epsilons",
        "0.01,0.1,1,10",
        "Budgets of --mechanism, an upload each.",
    )
    flags.DEFINE_list(
        "membership_rounds", "1,5", "Rounds whose model is attacked beside the last."
    )


def subset(data: Dataset, count: int, label_noise: float, seed: int) -> Dataset:
    """`count` random training examples, a part of them with random labels."""
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
    )


def members(split: Split, num_examples: int) -> np.ndarray:
    """(cells, n) bool: the examples that some client of a cell trains on."""
    train, counts = np.asarray(split.train), np.asarray(split.num_train)
    held = np.arange(train.shape[-1]) < counts[..., None]
    found = np.zeros((len(train), num_examples), bool)
    for cell, (rows, real) in enumerate(zip(train, held, strict=True)):
        found[cell, rows[real]] = True
    return found


def attack_sweep(
    configs: Sequence[ExperimentConfig], data: Dataset, rounds: Sequence[int]
) -> list[dict[str, Any]]:
    """Trains the cells and attacks their models after each of `rounds`.

    Args:
      configs: one mechanism's cells, the seeds of each ε in a row.
      rounds: ascending, counted from 1; the last is the last.
    """
    shadows = len({config.seed for config in configs})
    gaps = np.diff([0, *rounds])
    trainer = Trainer(
        configs,
        data,
        placement=Placement(cell_chunk_size=shadows, rounds_per_call=int(gaps.max())),
    )
    member = members(trainer.program.data.split, len(data.train_labels))
    inputs = preprocessing.normalize(jnp.asarray(data.train_inputs))
    labels = jnp.asarray(data.train_labels)

    @jax.jit
    def look(params: Any, stats: Any) -> tuple[jax.Array, jax.Array]:
        def one(params: Any, stats: Any) -> tuple[jax.Array, jax.Array]:
            logits, _ = trainer.program.model.apply(
                params, stats, inputs, train=False, key=None
            )
            right = jnp.argmax(logits, axis=-1) == labels
            return membership.confidences(logits, labels), right

        return jax.vmap(one)(params, stats)

    state, rows = trainer.initial_state(), []
    for done, gap in zip(rounds, gaps, strict=True):
        state, metrics = trainer.advance(state, int(done - gap), int(gap))
        phi, right = jax.device_get(look(state.params, state.stats))
        for start in range(0, len(configs), shadows):
            cells = slice(start, start + shadows)
            config, mask, hit = configs[start], member[cells], right[cells]
            for name in membership.SCORES:
                found = membership.roc(name, phi[cells], mask)
                fpr, tpr = found.curve
                rows.append(
                    {
                        "mechanism": config.mechanism,
                        "epsilon": (
                            None if config.mechanism == "none" else config.epsilon
                        ),
                        "round": int(done),
                        "attack": name,
                        "auc": found.auc,
                        "auc_low": found.auc_low,
                        "auc_high": found.auc_high,
                        "tpr": found.tpr,
                        "accuracy_members": float(hit[mask].mean()),
                        "accuracy_others": float(hit[~mask].mean()),
                        "test_accuracy": float(
                            np.mean(metrics.test_accuracy[-1, cells])
                        ),
                        "tpr_at": np.interp(_POINTS, fpr, tpr),
                    }
                )
    return rows


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    """The table for a terminal."""
    rates = [f"@{100 * rate:g}%" for rate in membership.FALSE_POSITIVE_RATES]
    head = ("epsilon", "round", "attack", "AUC", "low", "high", *rates, "in", "out")
    lines: list[tuple[str, ...]] = [("mechanism", *head)]
    lines += [(row["mechanism"], *cells(row)) for row in rows]
    return "\n".join(
        f"{name:<14}" + "".join(f"{text:>9}" for text in rest) for name, *rest in lines
    )


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A row's numbers as text: ε, round, attack, AUC, TPR, accuracies."""
    return (
        "-" if row["epsilon"] is None else f"{row['epsilon']:g}",
        str(row["round"]),
        row["attack"],
        *(f"{row[name]:.3f}" for name in ("auc", "auc_low", "auc_high")),
        *(f"{100 * rate:.2f}%" for rate in row["tpr"].values()),
        f"{100 * row['accuracy_members']:.0f}%",
        f"{100 * row['accuracy_others']:.0f}%",
    )


def draw(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The last round's ROC curves, both axes logarithmic, a panel an attack."""
    last = max(row["round"] for row in rows)
    colors = ("#000000", "#D55E00", "#E69F00", "#009E73", "#0072B2", "#CC79A7")

    def panel(axes: Any, attack: str) -> None:
        shown = [r for r in rows if r["round"] == last and r["attack"] == attack]
        for number, row in enumerate(shown):
            name = row["mechanism"]
            name += "" if row["epsilon"] is None else f", ε = {row['epsilon']:g}"
            axes.plot(
                _POINTS[1:],
                row["tpr_at"][1:],
                color=colors[number % len(colors)],
                label=name,
            )
        axes.plot([1e-4, 1], [1e-4, 1], color="#999999", linestyle=":", label="guess")
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            figures.plain_ticks(axis)
        axes.set_xlim(1e-4, 1)
        axes.set_ylim(1e-4, 1.05)
        axes.set_xlabel("false positive rate")
        axes.set_ylabel("true positive rate")
        titles = {"loss": "Loss threshold", "lira": "Likelihood ratio (LiRA)"}
        axes.set_title(f"{titles[attack]}, round {last}")

    figures.panels(
        path, [partial(panel, attack=attack) for attack in membership.SCORES]
    )


def attacked_rounds(texts: Sequence[str], num_rounds: int) -> list[int]:
    """The rounds that the flag names, and the last."""
    try:
        named = {int(text) for text in texts}
    except ValueError:
        named = {0}
    if not all(1 <= number <= num_rounds for number in named):
        raise ValueError(
            f"membership_rounds must be in [1, {num_rounds}], got {','.join(texts)}"
        )
    return sorted(named | {num_rounds})


def budgets(texts: Sequence[str]) -> tuple[float, ...]:
    """The budgets that the flag names; each is checked as --epsilon is."""
    try:
        return tuple(float(text) for text in texts)
    except ValueError:
        raise ValueError(
            f"membership_epsilons must be numbers, got {','.join(texts)}"
        ) from None


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """The federations without noise, then those of the mechanism."""
    refuse_flags(values, ["epsilon"], "membership_epsilons names it")
    rounds = attacked_rounds(values.membership_rounds, config.num_rounds)
    full = loading.load_dataset(config)
    if values.membership_examples > len(full.train_labels):
        raise ValueError(
            f"membership_examples must be at most {len(full.train_labels)}, got "
            f"{values.membership_examples}"
        )
    data = subset(
        full, values.membership_examples, values.membership_label_noise, config.seed
    )
    plan = SweepPlan(
        mechanisms=tuple(dict.fromkeys(("none", config.mechanism))),
        epsilons=budgets(values.membership_epsilons),
        seeds=tuple(range(config.seed, config.seed + values.membership_shadows)),
    )
    sweeps = {name: plan.cells(config, name) for name in plan.mechanisms}
    for configs in sweeps.values():
        Trainer(
            build(configs, data)
        )  # refuses what cannot run, before anything is kept
    folder = RunFolder(values.output_dir)
    chosen = dataclasses.asdict(plan) | {
        "attack": values.attack,
        "membership_label_noise": values.membership_label_noise,
        "membership_rounds": rounds,
    }
    folder.start(
        recorded_settings(config, data) | environment() | chosen,
        resume=values.resume,
    )
    rows: list[dict[str, Any]] = []
    for name, configs in tqdm(sweeps.items(), unit="sweep", disable=None):
        rows += kept(folder, name, partial(attack_sweep, configs, data, rounds))
    write_json(
        folder.path / "results.json",
        {
            "attack": values.attack,
            "shadows": values.membership_shadows,
            "examples": values.membership_examples,
            "label_noise": values.membership_label_noise,
            "false_positive_rates": _POINTS,
            "rows": rows,
        },
    )
    draw(folder.path / "roc.png", rows)
    print(format_table(rows))
    print("files:")
    for file in ("config.json", "results.json", "roc.png"):
        print(f"  {folder.path}/{file}")
