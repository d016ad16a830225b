"""How the results of the reconstruction attack are shown: tables and a picture."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fedsvp_jax import mechanisms, student
from fedsvp_jax.report import figures, style
from fedsvp_jax.report.text_table import markdown

from .. import upload_claims

FEDAVG = "none"
PAPERS = ("femnist", "cifar10")  # data of the papers, with a run for each defence
DEFENCES = (FEDAVG, "nbafl", "fedsva", "attribute_records")
DISTANCE, KERNEL = "Fréchet distance", "kernel distance"


def _mean_distance(mechanism: dict[str, Any]) -> float:
    """Mean of the Fréchet distances over the classes."""
    distances = [scores["frechet_distance"] for scores in mechanism["classes"]]
    return sum(distances) / len(distances)


def _kernel_distance(scores: dict[str, float]) -> str:
    return f"{scores['kernel_distance']:.4g} ± {scores['kernel_standard_error']:.3g}"


def table(results: dict[str, Any]) -> list[dict[str, str]]:
    """One row of texts per mechanism and per reference.

    The increase is over the mechanism none (FedAvg), as in FedSVA, Fig. 3; it is empty
    if none was not attacked. A number after ± is the std over several attackers, in
    the kernel distance the standard error.
    """
    several = results["settings"]["num_attackers"] > 1
    by_name = {row["mechanism"]: row for row in results["mechanisms"]}
    fedavg = by_name.get("none")
    rows = []
    for name, row in by_name.items():
        private, mean = row["classes"][0], _mean_distance(row)
        increase, mean_increase = "", ""
        if fedavg is not None and name != "none":
            before = fedavg["classes"][0]["frechet_distance"]
            increase = f"{100 * (private['frechet_distance'] / before - 1):+.1f}"
            mean_increase = f"{100 * (mean / _mean_distance(fedavg) - 1):+.1f}"
        rows.append(
            {
                "mechanism": name,
                "largest ε per upload": upload_claims.shown(row),
                "test accuracy %": f"{100 * row['test_accuracy']:.1f}",
                "recognised %": f"{100 * private['recognised']:.1f}"
                + several * f" ± {100 * private['recognised_std']:.1f}",
                DISTANCE: f"{private['frechet_distance']:.2f}"
                + several * f" ± {private['frechet_distance_std']:.2f}",
                "increase over none, %": increase,
                f"mean {DISTANCE} of all classes": f"{mean:.2f}",
                "increase of the mean, %": mean_increase,
                KERNEL: _kernel_distance(private),
                "nearest": f"{private['nearest_distance']:.3f}",
            }
        )
    for name, scores in results["references"].items():
        rows.append(
            dict.fromkeys(rows[0], "")
            | {
                "mechanism": f"({name})",
                "recognised %": f"{100 * scores['recognised']:.1f}",
                DISTANCE: f"{scores['frechet_distance']:.2f}",
                KERNEL: _kernel_distance(scores),
                "nearest": f"{scores['nearest_distance']:.3f}",
            }
        )
    return rows


def kept_cells(docs_dir: pathlib.Path, data: str) -> dict[str, dict[str, Any]]:
    """The kept runs on one of `PAPERS`, by defence, as far as there are files."""
    folder = docs_dir / "results" / "attacks"
    files = {name: folder / f"acgan_{data}_{name}.json" for name in DEFENCES}
    return {
        name: json.loads(file.read_text())
        for name, file in files.items()
        if file.exists()
    }


def final_table(cells: Mapping[str, dict[str, Any]]) -> list[dict[str, str]]:
    """One row of texts per defence and per reference: many images after the last round.

    The increase is that of the Fréchet distance over FedAvg's, attacker by attacker:
    exp of the mean of log(defended/undefended), with the 95 % interval of Student's t
    over the attackers. They share one federation, so the interval does not cover
    another draw of its noise.

    Args:
      cells: by defence, the kept results of a run of one mechanism; all have the same
        data and attackers. FedAvg is among them.
    """
    first = cells[FEDAVG]
    undefended = first["mechanisms"][0]["many_images"]["frechet_distances"]
    rows = []
    for defence, cell in cells.items():
        (row,) = cell["mechanisms"]
        many = row["many_images"]
        texts = {
            "defence": defence,
            "largest ε per upload": upload_claims.shown(row),
            "test accuracy %": f"{100 * row['test_accuracy']:.1f}",
            "recognised %": _mean_and_std(100 * np.asarray(many["recognised"]), 1),
        }
        for network, distances in many["frechet_distances"].items():
            texts[f"Fréchet distance ({network})"] = _mean_and_std(distances, 2)
            texts[f"increase, % ({network})"] = (
                "" if defence == FEDAVG else _increase(distances, undefended[network])
            )
        rows.append(texts)
    for name, scores in first["many_references"].items():
        texts = dict.fromkeys(rows[0], "") | {
            "defence": f"({name}, {scores['num_images']})",
            "recognised %": f"{100 * scores['recognised']:.1f}",
        }
        for network, distance in scores["frechet_distances"].items():
            texts[f"Fréchet distance ({network})"] = f"{distance:.2f}"
        rows.append(texts)
    return rows


def _mean_and_std(values: Sequence[float] | np.ndarray, digits: int) -> str:
    spread = f" ± {np.std(values):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def _increase(defended: Sequence[float], undefended: Sequence[float]) -> str:
    """`+12.3 (-4.0 to 31.2)`, in percent; without an interval for one attacker."""
    logs = np.log(np.asarray(defended) / np.asarray(undefended))

    def percent(log: float) -> float:
        return float(100 * np.expm1(log))

    mean = f"{percent(float(np.mean(logs))):+.1f}"
    if len(logs) == 1:
        return mean
    low, high = map(percent, student.interval(logs))
    return f"{mean} ({low:.1f} to {high:.1f})"


def final_page(cells: Mapping[str, dict[str, Any]]) -> str:
    """The table of `final_table`, and below it what was measured and how."""
    first = cells[FEDAVG]
    many = first["mechanisms"][0]["many_images"]
    return (
        f"{markdown(final_table(cells))}\n"
        f"{_federation(first['settings'])} Fréchet distances are taken between "
        f"{many['num_images']} reconstructions of each attacker and the "
        f"{many['num_real']} images of the private class that victims hold, "
        "in the features of the network in brackets. They are not FID. The "
        "classifier's accuracy on the real test images is "
        f"{100 * first['classifier_accuracy']:.1f} %."
    )


def _federation(settings: dict[str, Any]) -> str:
    """The attacked federation and its attackers in one sentence or two."""
    clip = settings["l2_norm_clip"]
    bound = "inf" if clip is None else f"{clip:g}"
    return (
        f"{settings['dataset']}, {settings['model']}, --sensitivity="
        f"{settings['sensitivity']}, C = {bound}, {settings['num_clients']} clients, "
        f"{settings['cohort_size']} per round, {settings['num_rounds']} rounds; "
        f"{settings['attack_mode']} attackers: {settings['num_attackers']}, "
        f"{settings['attack_steps']} steps per round. Private class: "
        f"{settings['private_attribute']}."
    )


def page(results: dict[str, Any]) -> str:
    """The table as Markdown, and below it the settings and what was measured."""
    settings = results["settings"]
    return (
        f"{markdown(table(results))}\n"
        f"{_federation(settings)} {DISTANCE} and {KERNEL} "
        f"({results['extractor']}) are taken between {settings['num_images']} "
        "reconstructions and as many real images. The classifier's accuracy on the "
        f"real test images is {100 * results['classifier_accuracy']:.1f} %."
    )


def score_curves(
    rows: Sequence[dict[str, Any]],
) -> dict[str, dict[str, list[float]]]:
    """Mechanism -> rounds, and each score's mean over the attackers by round."""
    curves: dict[str, dict[str, list[float]]] = {}
    for name in dict.fromkeys(row["mechanism"] for row in rows):
        own = [row for row in rows if row["mechanism"] == name]
        rounds = list(dict.fromkeys(row["round"] for row in own))
        curves[name] = {"round": rounds} | {
            score: [
                float(np.mean([row[score] for row in own if row["round"] == number]))
                for number in rounds
            ]
            for score in ("recognised", "frechet_distance")
        }
    return curves


def draw_scores(path: pathlib.Path, curves: dict[str, dict[str, list[float]]]) -> None:
    """Draws the curves that `score_curves` gives, one line per mechanism."""

    def panel(axes: Any, score: str, title: str) -> None:
        for name, curve in curves.items():
            label = mechanisms.mechanism_label(name).replace("_", " ")
            look = style.of_mechanism(name)
            figures.curve(axes, curve["round"], curve[score], look, label=label)
        figures.round_axis(axes)
        axes.set_title(title)

    figures.panels(
        path,
        [
            partial(panel, score="recognised", title="Share recognised"),
            partial(panel, score="frechet_distance", title=DISTANCE),
        ],
    )


def draw_kept(docs_dir: pathlib.Path, kind: str = "svg") -> list[pathlib.Path]:
    """Draws the scores by round whose points docs/results keeps; returns the paths.

    The cells of `PAPERS` share one figure, with a line per defence.
    """
    figures_of: dict[str, dict[str, Any]] = {}
    for data in PAPERS:
        cells = kept_cells(docs_dir, data)
        if cells:
            curves = {
                defence: curve
                for defence, cell in cells.items()
                for curve in cell["curves"].values()
            }
            figures_of[f"acgan_{data}"] = curves
    for file in (docs_dir / "results" / "attacks").glob("acgan_*.json"):
        results = json.loads(file.read_text())
        if "curves" in results and "many_references" not in results:
            figures_of[file.stem] = results["curves"]
    drawn = []
    for name, curves in sorted(figures_of.items()):
        drawn.append(docs_dir / "images" / f"{name}_scores.{kind}")
        draw_scores(drawn[-1], curves)
    return drawn
