"""How the results of the reconstruction attack are shown: tables and a picture."""

import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fedsvp_jax import mechanisms
from fedsvp_jax.report import figures, style
from fedsvp_jax.report.text_table import markdown

from .. import upload_claims

_FID = "Inception-v3 pool3"  # the only features whose distances have those names


def distances(results: dict[str, Any]) -> tuple[str, str]:
    """What the Fréchet and the kernel distance of these features are called."""
    if results["extractor"] == _FID:
        return "FID", "KID"
    return "Fréchet distance", "kernel distance"


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
    distance, kernel = distances(results)
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
                distance: f"{private['frechet_distance']:.2f}"
                + several * f" ± {private['frechet_distance_std']:.2f}",
                "increase over none, %": increase,
                f"mean {distance} of all classes": f"{mean:.2f}",
                "increase of the mean, %": mean_increase,
                kernel: _kernel_distance(private),
                "nearest": f"{private['nearest_distance']:.3f}",
            }
        )
    for name, scores in results["references"].items():
        rows.append(
            dict.fromkeys(rows[0], "")
            | {
                "mechanism": f"({name})",
                "recognised %": f"{100 * scores['recognised']:.1f}",
                distance: f"{scores['frechet_distance']:.2f}",
                kernel: _kernel_distance(scores),
                "nearest": f"{scores['nearest_distance']:.3f}",
            }
        )
    return rows


def page(results: dict[str, Any]) -> str:
    """The table as Markdown, and below it the settings and what was measured."""
    distance, kernel = distances(results)
    settings = results["settings"]
    clip = settings["l2_norm_clip"]
    bound = "inf" if clip is None else f"{clip:g}"
    return (
        f"{markdown(table(results))}\n"
        f"{settings['dataset']}, {settings['model']}, --sensitivity="
        f"{settings['sensitivity']}, C = {bound}, {settings['num_clients']} clients, "
        f"{settings['cohort_size']} per round, {settings['num_rounds']} rounds; "
        f"{settings['attack_mode']} attackers: {settings['num_attackers']}, "
        f"{settings['attack_steps']} steps per round. Private class: "
        f"{settings['private_attribute']}. {distance} and {kernel} "
        f"({results['extractor']}) are taken between {settings['num_images']} "
        "reconstructions and as many real images. The classifier's accuracy on the "
        f"real test images is {100 * results['classifier_accuracy']:.1f} %."
    )


def draw_scores(
    path: pathlib.Path, rows: Sequence[dict[str, Any]], distance: str
) -> None:
    """Scores by round, one line per mechanism: the mean over its attackers."""
    names = list(dict.fromkeys(row["mechanism"] for row in rows))

    def panel(axes: Any, score: str, title: str) -> None:
        for name in names:
            by_round: dict[int, list[float]] = {}
            for row in rows:
                if row["mechanism"] == name:
                    by_round.setdefault(row["round"], []).append(row[score])
            means = [float(np.mean(values)) for values in by_round.values()]
            look, label = style.of_mechanism(name), mechanisms.mechanism_label(name)
            figures.curve(axes, [*by_round], means, look, label=label)
        figures.round_axis(axes)
        axes.set_title(title)

    figures.panels(
        path,
        [
            partial(panel, score="recognised", title="Share recognised"),
            partial(panel, score="frechet_distance", title=distance),
        ],
    )
