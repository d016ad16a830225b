"""Writes the measured parts of docs/influence.md.

  python -m experiments.pages influence --keep=mnist_iid=runs/influence_mnist

Each file of docs/results/influence holds the settings and the summary of one run of
`experiments.influence`; the tables are made from all of them. --keep adds or replaces
such a file. The figures that the page shows are drawn again from these files.
"""

import json
import math
import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.filter_settings import FilterSettings
from fedsvp_jax.influence import privacy
from fedsvp_jax.report.text_table import markdown
from fedsvp_jax.run.files import write_json

from .. import docs_blocks
from . import figures, price_list

Outcome = dict[str, Any]  # config and summary of one `experiments.influence`
_CONTRIBUTOR_HEAD = "ε and δ of a contributor's batch"
_OF_KINDS = "corruption_"  # names of outcomes that compare kinds of corruption
_MOST_NOISE = 0.1  # shown of the ablation where nothing is projected; more drowns all

# Table 1 of arXiv 2205.11518: recall, precision, accuracy, each mean ± std in %.
PUBLISHED = {
    ("cifar10", "iid"): ("97.08 ± 3.51", "91.91 ± 7.15", "96.38 ± 2.83"),
    ("cifar10", "dirichlet"): ("93.75 ± 5.12", "69.02 ± 6.28", "85.00 ± 3.28"),
    ("cifar100", "iid"): ("99.17 ± 2.20", "97.96 ± 2.30", "99.12 ± 1.27"),
    ("cifar100", "dirichlet"): ("92.50 ± 5.71", "55.41 ± 3.94", "75.12 ± 3.76"),
}


def keep(name: str, folder: pathlib.Path, docs_dir: pathlib.Path) -> None:
    """Copies an outcome to results/influence/NAME.json, with the figures' points."""
    content = {
        part: json.loads((folder / f"{part}.json").read_text())
        for part in ("config", "summary", "provenance")
    }
    for path in ("data_dir", "features_dir"):
        content["config"].pop(path)
    summary = content["summary"]
    unseen = {"figure3", "figure4"} - figures.shown(name, docs_dir)
    content["summary"] = {key: summary[key] for key in summary if key not in unseen}
    write_json(docs_dir / "results" / "influence" / f"{name}.json", content)


def _percent(row: Outcome, name: str) -> str:
    if row.get(name) is None:
        return "–"
    return f"{100 * row[name]:.2f} ± {100 * row[f'{name}_std']:.2f}"


def _scores(row: Outcome, *names: str) -> dict[str, str]:
    return {f"{name} %": _percent(row, name.lower()) for name in names}


def _epsilon(value: float | None) -> str:
    return "∞" if value is None else f"{value:g}"


def _contributor(config: Outcome, noise_multiplier: float | None = None) -> str:
    """ε and δ of a contributor's batch in one pass of the filter."""
    epsilon = _contribution_epsilon(config, noise_multiplier)
    if math.isinf(epsilon):
        return "∞"
    return f"{epsilon:.3g}, {config['target_delta']:g}"


def _contribution_epsilon(
    config: Outcome, noise_multiplier: float | None = None
) -> float:
    if noise_multiplier is None:
        noise_multiplier = config["contribution_noise"]
    return privacy.filter_cost(
        FilterSettings(vote_epsilon=math.inf, contribution_noise=noise_multiplier),
        num_participants=1,
        delta=config["target_delta"],
    ).contribution_epsilon


def _backbone(config: Outcome) -> str:
    kept = config.get("influence_projection")
    return _network(config) + (f", {kept} directions" if kept else "")


def _network(config: Outcome) -> str:
    about = config["backbone"]
    if config["model"] == "lite0_linear":
        return "EfficientNet-Lite0"
    if isinstance(about, str):
        return f"{config['model']}, {about}"
    if "hugging_face" in about:
        return f"vit, {about['hugging_face']}"
    return (
        f"{about['model']} from {about['dataset']} ({about['epochs']} epochs, "
        f"{100 * float(about['test_accuracy']):.1f} % there)"
    )


def _setting_cells(config: Outcome) -> dict[str, str]:
    """The columns that say what was run."""
    return {
        "data": config["dataset"],
        "partition": _partition(config),
        "participants": f"{config['num_participants']}, {config['num_runs']} runs",
        "backbone": _backbone(config),
    }


def _partition(config: Outcome) -> str:
    if config["partition"] == "dirichlet":
        return f"Dirichlet({config['dirichlet_alpha']:g})"
    return str(config["partition"])


def table(outcomes: Sequence[Outcome]) -> str:
    """Table 1: what was measured, next to what is published."""
    rows = []
    for outcome in outcomes:
        config, summary = outcome["config"], outcome["summary"]
        published = PUBLISHED.get((config["dataset"], config["partition"]))
        rows.append(
            {
                **_setting_cells(config),
                "ε per vote": _epsilon(config["vote_epsilon"]),
                "contribution noise z": f"{config['contribution_noise']:g}",
                _CONTRIBUTOR_HEAD: _contributor(config),
                **_scores(summary, "recall", "precision", "accuracy", "F1"),
                "published recall, precision, accuracy %": ", ".join(
                    published or ["–"]
                ),
            }
        )
    return markdown(rows)


def both_at_one(outcomes: Sequence[Outcome]) -> str:
    """Sentences on the runs in which a vote and a contribution have an ε of 1 each."""
    shown = []
    for outcome in outcomes:
        config, summary = outcome["config"], outcome["summary"]
        if config["vote_epsilon"] == 1 and _contribution_epsilon(config) <= 1:
            share = config["corrupted_share"]
            shown.append(
                f"- {config['dataset']}, {_partition(config)}: recall "
                f"{_percent(summary, 'recall')} %, precision "
                f"{_percent(summary, 'precision')} %. Rejecting at random has a "
                f"precision of {share:.0%}."
            )
    if not shown:
        return "Runs in which both budgets are 1 are not measured yet."
    return "Where both budgets are 1 (mean ± std over the runs):\n\n" + "\n".join(shown)


def ablation(outcomes: Sequence[Outcome]) -> str:
    """The filter at each strength of noise, and at the best possible threshold."""
    votes = "mean sum of true votes on a clean and on a corrupted contributor"
    rows = [
        {
            **_setting_cells(outcome["config"]),
            "ε per vote": _epsilon(row["vote_epsilon"]),
            "contribution noise z": f"{row['contribution_noise']:g}",
            _CONTRIBUTOR_HEAD: _contributor(
                outcome["config"], row["contribution_noise"]
            ),
            **_scores(row, "recall", "precision", "F1"),
            "F1 % at the best threshold": _percent(row, "best_cut_f1"),
            votes: f"{row['true_vote_clean']:.1f}, {row['true_vote_corrupted']:.1f}",
        }
        for outcome in outcomes
        for row in outcome["summary"].get("ablation", [])
        if row["contribution_noise"] <= _MOST_NOISE
        or outcome["config"].get("influence_projection")
    ]
    return markdown(rows)


def _baseline_budgets(config: Outcome, name: str) -> dict[str, str]:
    """ε of a vote and of a contribution under one of the compared filters."""
    lazy = name == "lazy"
    return {
        "ε per vote": _epsilon(config["vote_epsilon"]) if lazy else "none claimed",
        _CONTRIBUTOR_HEAD: _contributor(config) if lazy else "none claimed",
    }


def baselines(outcomes: Sequence[Outcome]) -> str:
    """Other filters on the same simulations; `lazy` alone keeps anything private."""
    accuracy = "accuracy % of the last layer trained on the batches kept"
    rows = [
        {
            **_setting_cells(outcome["config"]),
            "filter": row["filter"],
            **_baseline_budgets(outcome["config"], row["filter"]),
            **_scores(row, "recall", "precision", "F1"),
            accuracy: _percent(row, "model_accuracy"),
        }
        for outcome in outcomes
        for row in outcome["summary"].get("baselines", [])
    ]
    return markdown(rows)


def corruptions(outcomes: Sequence[Outcome]) -> str:
    """Each kind of corruption: which filters find it, and what the model gains."""
    rows = []
    for outcome in outcomes:
        config = outcome["config"]
        by = {row["filter"]: row for row in outcome["summary"]["baselines"]}
        row = {
            "data": config["dataset"],
            "partition": _partition(config),
            "corruption": config["corruption"].replace("_", " "),
        }
        for name in ("lazy", "centre"):
            found = _scores(by[name], "recall", "precision")
            row |= {f"{name}: {score}": value for score, value in found.items()}
        for name, told in by.items():
            row[f"accuracy %, {name}"] = _percent(told, "model_accuracy")
        rows.append(row)
    return markdown(rows)


def federations(outcomes: Sequence[Outcome]) -> str:
    """Figure 2 in numbers: accuracy by the share of corrupted clients."""
    rows = []
    for outcome in outcomes:
        by_share: dict[float, dict[str, float]] = {}
        for row in outcome["summary"].get("figure2", []):
            of_share = by_share.setdefault(row["corrupted_share"], {})
            of_share[row["filter"]] = row["accuracy"]
        rows += [
            {
                "data": outcome["config"]["dataset"],
                "corrupted clients": f"{share:.0%}",
                f"{_CONTRIBUTOR_HEAD}, with filter": _contributor(outcome["config"]),
                "accuracy % without filter": f"{100 * accuracy['none']:.2f}",
                "accuracy % with filter": f"{100 * accuracy['join']:.2f}",
            }
            for share, accuracy in by_share.items()
        ]
    return markdown(rows)


def growth(outcomes: Sequence[Outcome]) -> str:
    """Figure 6 in numbers: recall and precision by participants and ε of a vote."""
    rows = [
        {
            "data": outcome["config"]["dataset"],
            "partition": _partition(outcome["config"]),
            "participants": str(row["num_participants"]),
            "ε per vote": _epsilon(row["vote_epsilon"]),
            _CONTRIBUTOR_HEAD: _contributor(outcome["config"]),
            **_scores(row, "recall", "precision"),
        }
        for outcome in outcomes
        for row in outcome["summary"].get("figure6", [])
    ]
    return markdown(rows)


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes the blocks of influence.md anew and returns the page's path."""
    named = figures.kept_outcomes(docs_dir)
    kinds = [one for name, one in named.items() if name.startswith(_OF_KINDS)]
    kept = [one for name, one in named.items() if not name.startswith(_OF_KINDS)]
    prices = price_list.lines(
        price_list.cost(resolve(ExperimentConfig(dataset="cifar10")), 100)
    )
    writers = (table, both_at_one, ablation, baselines, federations, growth)
    blocks = {writer.__name__: partial(writer, kept) for writer in writers}
    blocks["corruptions"] = partial(corruptions, kinds)
    plan = partial("".join, [f"- {line}\n" for line in prices])
    return docs_blocks.rewrite(docs_dir / "influence.md", {"plan": plan, **blocks})


def draw(docs_dir: pathlib.Path, kind: str = "svg") -> list[pathlib.Path]:
    """Draws the page's figures; returns their paths."""
    return figures.draw_kept(docs_dir, kind)
