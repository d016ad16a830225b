"""Lazy influence: how well private votes filter corrupted contributors.

  python -m experiments.influence --dataset=cifar10 --data_dir=FOLDER \\
      --partition=dirichlet --num_participants=100 --vote_epsilon=1 \\
      --output_dir=runs/influence

The centre trains a network on a few examples of its own. Each participant trains the
last layer of that network on its batch, clips the change, adds noise and sends the
result; the batches of some participants are corrupted. Every other participant votes
on whether the result lowers the loss on its own test examples, and reports its vote
through randomised response. The centre splits the sums of reported votes into two
clusters and rejects the contributors of the lower one. The command prints recall,
precision, accuracy and F1 of the rejection as mean ± standard deviation over
--num_runs runs.

--plan prints what that costs each participant in privacy and runs nothing.
--figures=2,5,6 also draws the larger figures: accuracy of whole federations by the
share of corrupted clients (2; it reads the flags of experiments.train), F1 by epochs
and step size of the contributors (5), recall and precision by privacy and number of
participants (6). --ablation varies the noise of the votes and of the contributions, and
compares the threshold with the best possible one.

Written to --output_dir: config.json, runs.jsonl (one line per result), summary.json,
provenance.json, figure3.svg (votes), figure4.svg (labels), the figures asked for,
timing.jsonl. --resume continues, also with more figures than before.
"""

import functools
import pathlib
from typing import Any

from absl import flags

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import plan
from fedsvp_jax.influence import Guarantees

from .. import command, flag_values, messages, provenance
from . import grids, price_list
from .tasks import (
    Result,
    Task,
    aggregate,
    filter_result,
    measure,
    run_filter,
    with_settings,
)

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
    "Number of participants; each one contributes and tests. Default: 100 (digits: "
    "20).",
    lower_bound=2,
)
flags.DEFINE_integer(
    "num_runs", 8, "Number of runs; each has its own seed.", lower_bound=1
)
flags.DEFINE_integer(
    "max_train_examples",
    None,
    "Training examples to draw participants from, evenly spaced, in addition to all "
    "test examples; fewer cost less where a network computes their features. Default: "
    "all.",
    lower_bound=1,
)
flags.DEFINE_enum(
    "backbone",
    "warmup",
    ["warmup", "random"],
    "Network that computes the features: warmup (the model, trained on the centre's "
    "examples) or random (the model without training; of --model=logistic the data "
    "are the features).",
)
flags.DEFINE_list("figures", [], "Larger figures to draw as well: 2, 5, 6.")
flags.DEFINE_list(
    "baselines", [], f"Other filters to compare with: {', '.join(grids.BASELINES)}."
)
flags.DEFINE_bool(
    "ablation",
    False,
    "Also run the filter with several strengths of vote noise and contribution noise.",
)
flags.DEFINE_bool("plan", False, "Print the cost in privacy and run nothing.")
flags.DEFINE_bool("progress", True, "Show a progress bar on a terminal.")


def settings(values: flags.FlagValues) -> ExperimentConfig:
    """The resolved settings, with this experiment's own defaults.

    Raises:
      ValueError: a flag has a value that this experiment does not take.
    """
    command.default_settings(values, _DEFAULTS)
    config = command.settings_from_flags(values)
    for name, known in (("figures", _FIGURES), ("baselines", grids.BASELINES)):
        flag_values.refuse_unknown(name, values[name].value or [], known)
    if config.partition not in ("iid", "dirichlet"):
        raise ValueError(f"partition must be iid or dirichlet, got {config.partition}")
    return config


def tasks_of(values: flags.FlagValues, num_participants: int) -> list[Task]:
    """Everything that the flags ask for, but for the federations of figure 2."""
    counts = num_participants, values.num_runs
    tasks = grids.table_tasks(*counts)
    tasks += grids.baseline_tasks(values.baselines, *counts)
    for grid in _grids(values):
        tasks += grids.grid_tasks(grid, *counts)
    return tasks


def _grids(values: flags.FlagValues) -> list[str]:
    named = [f"figure{figure}" for figure in values.figures]
    return [name for name in named if name in grids.GRIDS] + (
        ["ablation"] * values.ablation
    )


def summarize(
    values: flags.FlagValues, results: dict[str, list[Result]], cost: Guarantees
) -> dict[str, Any]:
    """The content of summary.json, but for what is drawn.

    Args:
      values: the command line's.
      results: those of each part (`Task.part`).
      cost: what the filter costs each participant.
    """
    summary = dict(aggregate(results["table"], grids.REPORTED))
    summary |= {"num_runs": values.num_runs, "guarantees": cost._asdict()}
    if values.baselines:
        summary["baselines"] = grids.grid_summary(results["baselines"], ["filter"])
    for grid in _grids(values):
        summary[grid] = grids.grid_summary(results[grid], list(grids.GRIDS[grid]))
    return summary


def simulate(
    values: flags.FlagValues, config: ExperimentConfig, num_participants: int
) -> dict[str, Any]:
    """Computes and draws what the flags ask for; returns summary.json's content."""
    from fedsvp_jax.federation import loading
    from fedsvp_jax.run.files import write_json

    from . import federations, figures
    from .simulation import Simulator

    data = loading.load_dataset(config, values.max_train_examples)
    simulator = Simulator(config, data, values.backbone)
    latest_simulation = functools.lru_cache(1)(simulator.simulation)
    first = latest_simulation(num_participants, 0)  # fails before anything is written
    folder = command.start_folder(
        values,
        plan.recorded_settings(config, data),
        num_participants=num_participants,
        num_runs=values.num_runs,
        backbone=values.backbone,
    )

    def compute(task: Task) -> Result:
        simulation = latest_simulation(task.settings["num_participants"], task.run)
        changed = with_settings(config, task)
        if task.part == "baselines":
            name = task.settings["filter"]
            return grids.baseline_result(name, simulation, changed, task.run)
        return filter_result(simulation, changed, task.run)

    tasks = tasks_of(values, num_participants)
    by_name = measure(tasks, compute, folder, progress=values.progress)
    results: dict[str, list[Result]] = {}
    for task in tasks:
        results.setdefault(task.part, []).append(by_name[task.name])
    summary = summarize(values, results, price_list.cost(config, num_participants))
    if "2" in values.figures:
        summary["figure2"] = federations.measure(
            config, data, folder.path / "federations", progress=values.progress
        )
    verdict = run_filter(first, config, 0)
    summary["figure3"] = {
        "corrupted": first.corrupted,
        "true": verdict.true_scores,
        "reported": verdict.scores,
        "threshold": verdict.threshold[()],
    }
    summary["figure4"] = first.class_counts
    summary["drawn"] = [path.name for path in figures.draw(folder.path, summary)]
    write_json(folder.path / "summary.json", summary)
    write_json(folder.path / "provenance.json", provenance.stamp_of_run(config))
    return summary


def main(_: list[str]) -> None:
    """Prints the cost and, without --plan, runs and prints what the flags ask for."""
    values = flags.FLAGS
    if values.output_dir is None and not values.plan:
        raise ValueError(messages.OUTPUT_DIR_REQUIRED)
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
    for result in summary.get("baselines", []) + summary.get("ablation", []):
        print(command.shown(result))
    names = ("config.json", "runs.jsonl", "summary.json", *summary["drawn"])
    command.print_files(pathlib.Path(values.output_dir) / name for name in names)


if __name__ == "__main__":
    command.run(main, __doc__)
