"""Writes the measured parts of docs/influence.md.

  python -m experiments.influence.docs_page --keep=mnist_iid=runs/influence_mnist

They come from the files of docs/results/influence, each the outcome of one
`experiments.influence`; --keep adds one or replaces it, and those of its figures that
the page shows.
"""

import json
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

from absl import flags

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.report.tables import markdown_table
from fedsvp_jax.run.folder import write_json

from .. import command, docs_blocks
from . import price_list

flags.DEFINE_list("keep", [], "NAME=FOLDER: outcomes to keep in docs/results.")
flags.DEFINE_string(
    "influence_docs_dir", "docs", "Folder of influence.md, and results/."
)

Outcome = dict[str, Any]
_MOST_NOISE = 0.1  # of the ablation's rows on the page; more drowns every contribution

# Table 1 of arXiv 2205.11518: recall, precision, accuracy, each mean ± std in %.
PUBLISHED = {
    ("cifar10", "iid"): ("97.08 ± 3.51", "91.91 ± 7.15", "96.38 ± 2.83"),
    ("cifar10", "dirichlet"): ("93.75 ± 5.12", "69.02 ± 6.28", "85.00 ± 3.28"),
    ("cifar100", "iid"): ("99.17 ± 2.20", "97.96 ± 2.30", "99.12 ± 1.27"),
    ("cifar100", "dirichlet"): ("92.50 ± 5.71", "55.41 ± 3.94", "75.12 ± 3.76"),
}


def keep(name: str, folder: pathlib.Path, docs_dir: pathlib.Path) -> None:
    """Copies settings and summary to results/influence/NAME.json, and the figures."""
    content = {
        part: json.loads((folder / f"{part}.json").read_text())
        for part in ("config", "summary")
    }
    content["config"].pop("data_dir")
    write_json(docs_dir / "results" / "influence" / f"{name}.json", content)
    text = (docs_dir / "influence.md").read_text()
    for figure in folder.glob("figure*.png"):
        shown = f"images/influence_{name}_{figure.name}"
        if shown in text:
            shutil.copy(figure, docs_dir / shown)


def outcomes(results: pathlib.Path) -> dict[str, Outcome]:
    """Every outcome that is kept, by name."""
    return {file.stem: json.loads(file.read_text()) for file in results.glob("*.json")}


def _percent(row: Outcome, name: str) -> str:
    if row.get(name) is None:
        return "–"
    return f"{100 * row[name]:.2f} ± {100 * row[f'{name}_std']:.2f}"


def _number(value: Any) -> str:
    return "none" if value is None else f"{value:g}"


def _backbone(config: Outcome) -> str:
    about = config["backbone"]
    if isinstance(about, str):
        return f"{config['model']}, {about}"
    if "hugging_face" in about:
        return f"vit, {about['hugging_face']}"
    return (
        f"{about['model']} from {about['dataset']} ({about['epochs']} epochs, "
        f"{100 * float(about['test_accuracy']):.1f} % there)"
    )


def _where(config: Outcome) -> list[str]:
    partition = config["partition"]
    if partition == "dirichlet":
        partition = f"Dirichlet({config['dirichlet_alpha']:g})"
    people = f"{config['num_participants']}, {config['num_runs']} runs"
    return [config["dataset"], partition, people, _backbone(config)]


_WHERE = ["data", "partition", "participants", "backbone"]


def table(found: Sequence[Outcome]) -> str:
    """Table 1, measured beside published."""
    head = [*_WHERE, "ε of a vote", "noise of a contribution"]
    head += ["recall %", "precision %", "accuracy %", "F1 %"]
    head += ["published recall, precision, accuracy %"]
    rows = []
    for outcome in found:
        config, summary = outcome["config"], outcome["summary"]
        published = PUBLISHED.get((config["dataset"], config["partition"]))
        rows.append(
            [
                *_where(config),
                _number(config["vote_epsilon"]),
                f"{config['contribution_noise']:g}",
                *(
                    _percent(summary, name)
                    for name in ("recall", "precision", "accuracy", "f1")
                ),
                ", ".join(published) if published else "–",
            ]
        )
    return markdown_table(head, rows)


def ablation(found: Sequence[Outcome]) -> str:
    """What limits the filter, noise by noise, and what a better cut would give."""
    head = [*_WHERE, "ε of a vote", "noise of a contribution", "recall %"]
    head += ["precision %", "F1 %", "F1 % of the best cut"]
    head += ["true votes: clean, corrupted"]
    rows = [
        [
            *_where(outcome["config"]),
            _number(row["vote_epsilon"]),
            f"{row['contribution_noise']:g}",
            _percent(row, "recall"),
            _percent(row, "precision"),
            _percent(row, "f1"),
            _percent(row, "best_cut_f1"),
            f"{row['true_vote_clean']:.1f}, {row['true_vote_corrupted']:.1f}",
        ]
        for outcome in found
        for row in outcome["summary"].get("ablation", [])
        if row["contribution_noise"] <= _MOST_NOISE
    ]
    return markdown_table(head, rows)


def baselines(found: Sequence[Outcome]) -> str:
    """Other filters on the same runs."""
    head = [*_WHERE, "filter", "recall %", "precision %", "F1 %"]
    head += ["accuracy % of the last layer trained on who is left"]
    rows = [
        [
            *_where(outcome["config"]),
            row["filter"],
            _percent(row, "recall"),
            _percent(row, "precision"),
            _percent(row, "f1"),
            _percent(row, "model_accuracy"),
        ]
        for outcome in found
        for row in outcome["summary"].get("baselines", [])
    ]
    return markdown_table(head, rows)


def federations(found: Sequence[Outcome]) -> str:
    """Figure 2 in numbers: accuracy of a federation by the share of corrupted."""
    head = ["data", "corrupted clients", "no filter %", "filter %"]
    rows = []
    for outcome in found:
        by_share: dict[float, dict[str, float]] = {}
        for row in outcome["summary"].get("figure2", []):
            of_share = by_share.setdefault(row["corrupted_share"], {})
            of_share[row["filter"]] = row["accuracy"]
        rows += [
            [
                outcome["config"]["dataset"],
                f"{share:.0%}",
                f"{100 * accuracy['none']:.2f}",
                f"{100 * accuracy['join']:.2f}",
            ]
            for share, accuracy in by_share.items()
        ]
    return markdown_table(head, rows)


def growth(found: Sequence[Outcome]) -> str:
    """Figure 6 in numbers, at every number of participants."""
    head = ["data", "participants", "ε of a vote", "recall %", "precision %"]
    rows = [
        [
            outcome["config"]["dataset"],
            str(row["num_participants"]),
            _number(row["vote_epsilon"]),
            _percent(row, "recall"),
            _percent(row, "precision"),
        ]
        for outcome in found
        for row in outcome["summary"].get("figure6", [])
    ]
    return markdown_table(head, rows)


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Rewrites the page's blocks from what is kept."""
    kept = outcomes(docs_dir / "results" / "influence")
    found = [kept[name] for name in sorted(kept)]
    page = docs_dir / "influence.md"
    prices = price_list.lines(
        price_list.cost(resolve(ExperimentConfig(dataset="cifar10")), 100)
    )
    made = {
        "plan": lambda: "".join(f"- {line}\n" for line in prices),
        "table": lambda: table(found),
        "ablation": lambda: ablation(found),
        "baselines": lambda: baselines(found),
        "federations": lambda: federations(found),
        "growth": lambda: growth(found),
    }
    page.write_text(docs_blocks.rewritten(page.read_text(), made))
    return page


def main(_: list[str]) -> None:
    """Keeps what is named and rewrites the page."""
    values = flags.FLAGS
    docs_dir = pathlib.Path(values.influence_docs_dir)
    for name, folder in command.named_folders(values.keep).items():
        keep(name, folder, docs_dir)
    print(rewrite(docs_dir))


if __name__ == "__main__":
    command.run(main, __doc__)
