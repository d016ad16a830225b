"""Lazy influence: how well private votes filter corrupted contributors.

  python -m experiments.influence --dataset=cifar10 --data_dir=FOLDER \\
      --partition=dirichlet --num_participants=100 --vote_epsilon=1 \\
      --output_dir=runs/influence

The centre trains on a few examples of its own. Every participant trains the last layer
on its batch, a share of the participants on a corrupted one, and sends the layer
clipped and noised; every other one votes whether it lowers the loss on its own test
examples, and tells its vote by randomised response. The centre splits the sums of
votes in two and rejects the lower part. Recall, precision, accuracy and F1 of the
rejection are printed as mean ± std over --num_runs.

--plan prints what that costs each participant in privacy, without running anything.
--figures=2,5,6 draws the larger figures too: accuracy of whole federations by the share
of corrupted clients (2, which reads the flags of experiments.train), F1 by epochs and
step size (5), recall and precision by privacy and participants (6). --ablation tells
the votes' noise, the contributions' noise and the threshold apart.

Written to --output_dir: config.json, runs.jsonl (a line a run), summary.json,
figure3.png (votes), figure4.png (labels), those asked for, timing.jsonl. --resume goes
on, also with more figures than before.
"""

import functools
import pathlib
from typing import Any

from absl import flags

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import plan

from .. import command
from . import grids, price_list

_DEFAULTS: dict[str, Any] = {
    "model": "small_cnn",
    "mechanism": "none",
    "num_hbc_clients": 0,
    "partition": "iid",
    "dirichlet_alpha": 0.1,
    "corrupted_share": 0.3,
    "minimum_gap": 0.0,
}
_FIGURES = ("2", "5", "6")

command.define_settings(without=["influence_filter", "influence_every"])
command.define_output(required=False)
flags.DEFINE_integer(
    "num_participants",
    None,
    "Contributors, each a tester too. Default: 100; of digits 20.",
    lower_bound=2,
)
flags.DEFINE_integer("num_runs", 8, "Runs, each with a seed of its own.", lower_bound=1)
flags.DEFINE_string(
    "backbone",
    "warmup",
    "Frozen features: warmup (the model trained on the centre's examples), random, a "
    "file of experiments.pretrain, or hf:NAME, a Vision Transformer in Hugging Face's "
    "cache or a folder of one (--model is not read then).",
)
flags.DEFINE_list("figures", [], "Larger figures to draw too, of 2, 5, 6.")
flags.DEFINE_list(
    "baselines", [], f"Baselines to compare with, of {', '.join(grids.BASELINES)}."
)
flags.DEFINE_bool("ablation", False, "Tell the causes of errors apart.")
flags.DEFINE_bool("plan", False, "Print the cost in privacy, run nothing.")
flags.DEFINE_bool("progress", True, "Show a progress bar on a terminal.")


def settings(values: flags.FlagValues) -> ExperimentConfig:
    """The resolved settings, with this experiment's own defaults."""
    missing = {k: v for k, v in _DEFAULTS.items() if not values[k].present}
    config = command.settings_from_flags(values, **missing)
    for name, known in (("figures", _FIGURES), ("baselines", grids.BASELINES)):
        unknown = [value for value in values[name].value or [] if value not in known]
        if unknown:
            raise ValueError(
                f"{name} must be of {', '.join(known)}, got {unknown[0]!r}"
            )
    if config.partition not in ("iid", "dirichlet"):
        raise ValueError(f"partition must be iid or dirichlet, got {config.partition}")
    return config


def draw_grids(folder: pathlib.Path, summary: dict[str, Any]) -> list[str]:
    """Figures 2, 5 and 6, those that there are rows for."""
    from . import figures

    names = {
        "influence_epochs": "epochs of a contributor",
        "influence_learning_rate": "step size",
        "num_participants": "participants",
        "vote_epsilon": "ε of a vote",
        "corrupted_share": "share of corrupted clients",
        "accuracy": "test accuracy of the federation",
        "f1": "F1",
    }
    wanted = {
        "figure2": ("corrupted_share", "filter", ("accuracy",)),
        "figure5": ("influence_epochs", "influence_learning_rate", ("f1",)),
        "figure6": ("num_participants", "vote_epsilon", ("recall", "precision")),
    }
    drawn = []
    for part, (x, by, shown) in wanted.items():
        if part in summary:
            figures.lines(
                folder / f"{part}.png",
                summary[part],
                x=x,
                by=by,
                shown=shown,
                names=names,
            )
            drawn.append(f"{part}.png")
    return drawn


def simulate(
    values: flags.FlagValues, config: ExperimentConfig, num_participants: int
) -> dict[str, Any]:
    """Runs every part that is asked for; returns summary.json's content."""
    from fedsvp_jax.federation import loading
    from fedsvp_jax.run.environment import environment
    from fedsvp_jax.run.folder import RunFolder, write_json

    from . import federations, figures
    from . import tasks as lazy
    from .simulation import Simulator

    data = loading.load_dataset(config)
    simulator = Simulator(config, data, values.backbone)
    latest_simulation = functools.lru_cache(1)(simulator.simulation)
    first = latest_simulation(num_participants, 0)
    folder = RunFolder(values.output_dir)
    chosen = {
        "num_participants": num_participants,
        "num_runs": values.num_runs,
        "backbone": simulator.backbone,
    }
    folder.start(
        plan.recorded_settings(config, data) | environment() | chosen,
        resume=values.resume,
    )
    parts = [f"figure{f}" for f in values.figures if f"figure{f}" in grids.GRIDS]
    parts += ["ablation"] * values.ablation
    counts = num_participants, values.num_runs
    tasks = grids.main_tasks(*counts)
    tasks += grids.baseline_tasks(values.baselines, *counts)
    for part in parts:
        tasks += grids.grid_tasks(part, *counts)

    def make(task: lazy.Task) -> lazy.Row:
        simulation = latest_simulation(task.settings["num_participants"], task.run)
        own = lazy.with_settings(config, task)
        if task.part == "baselines":
            return grids.baseline_row(
                task.settings["filter"], simulation, own, task.run
            )
        return lazy.lazy_row(simulation, own, task.run)

    rows = lazy.measure(tasks, make, folder, progress=values.progress)
    of_part: dict[str, list[lazy.Row]] = {}
    for task in tasks:
        of_part.setdefault(task.part, []).append(rows[task.name])
    cost = price_list.cost(config, num_participants)
    summary: dict[str, Any] = lazy.aggregate(of_part["table"], grids.REPORTED)
    summary |= {"num_runs": values.num_runs, "guarantees": cost._asdict()}
    if values.baselines:
        summary["baselines"] = grids.grid_summary(of_part["baselines"], ["filter"])
    for part in parts:
        summary[part] = grids.grid_summary(of_part[part], list(grids.GRIDS[part]))
    if "2" in values.figures:
        summary["figure2"] = federations.measure(
            config, data, folder.path / "federations", progress=values.progress
        )
    figures.votes(folder.path / "figure3.png", first, lazy.run_filter(first, config, 0))
    figures.labels(folder.path / "figure4.png", first.class_counts)
    summary["drawn"] = ["figure3.png", "figure4.png"]
    summary["drawn"] += draw_grids(folder.path, summary)
    write_json(folder.path / "summary.json", summary)
    return summary


def main(_: list[str]) -> None:
    """Runs what the flags name."""
    values = flags.FLAGS
    if values.output_dir is None and not values.plan:
        raise ValueError(
            "flag --output_dir is required: the folder for everything written"
        )
    config = settings(values)
    default = 20 if config.dataset == "digits" else 100
    num_participants = values.num_participants or default
    for line in price_list.lines(price_list.cost(config, num_participants)):
        print(line)
    if values.plan:
        return
    command.start_jax(values)
    summary = simulate(values, config, num_participants)
    for name in ("recall", "precision", "accuracy", "f1"):
        mean, std = summary[name], summary[f"{name}_std"]
        shown = "none" if mean is None else f"{mean:7.2%} ± {std:.2%}"
        print(f"{name:<10}{shown}")
    for row in summary.get("baselines", []):
        told = ", ".join(f"{k} {command.shown(v)}" for k, v in row.items())
        print(told)
    for row in summary.get("ablation", []):
        told = ", ".join(f"{k} {command.shown(v)}" for k, v in row.items())
        print(told)
    print("files:")
    for name in ("config.json", "runs.jsonl", "summary.json", *summary["drawn"]):
        print(f"  {pathlib.Path(values.output_dir) / name}")


if __name__ == "__main__":
    command.run(main, __doc__)
