"""The figures of docs/reproduction.md, made from the same results as its tables."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.report import figures, style

from . import noise_response, published_noise, tables
from .evidence import (
    CONTRIBUTION,
    NOISE_FIGURES,
    SCENARIOS,
    Evidence,
    Scenario,
    sizes,
)
from .results import Result


def write_figures(evidence: Evidence, folder: Path) -> list[Path]:
    """Draws every figure for which there are results; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    responses = [
        partial(_response, evidence=evidence, scenario=scenario, measured=measured)
        for scenario in SCENARIOS
        if (measured := published_noise.response_of(evidence, scenario))
    ]
    if responses:
        paths.append(figures.panels(folder / "noise_response.svg", responses))
    panels: list[Callable[[Any], None]] = []
    for preset in NOISE_FIGURES:
        for _, result in sizes(evidence, preset)[-1:]:
            shown = tables.shown_noise(result)
            epsilons = sorted({group["epsilon"] for group in shown})
            panels += [_by_round(preset, shown, e, "noise_l2") for e in epsilons]
            if epsilons and not preset.endswith("emnist"):
                panels.append(_by_round(preset, shown, epsilons[-1], "epsilon_spent"))
    if panels:
        paths.append(figures.panels(folder / "noise_by_round.svg", panels))
    for _, result in sizes(evidence, CONTRIBUTION)[-1:]:
        if tables.guided(result):
            path = folder / "contribution.svg"
            paths.append(figures.panels(path, [partial(_contribution, result=result)]))
    return paths


def _response(
    axes: Any,
    evidence: Evidence,
    scenario: Scenario,
    measured: published_noise.Measured,
) -> None:
    """The measured curve (dotted: of each seed); filled: the formula's noise; hollow:
    the needed noise."""
    curve = measured.curve
    if len(measured.by_seed) > 1:
        for one in measured.by_seed:
            axes.plot(one.std, 100 * one.share, ":", color=style.GREY, linewidth=0.7)
    axes.plot(curve.std, 100 * curve.share, "-", color=style.GREY)
    in_legend = set()
    for cell in published_noise.cells(evidence, scenario, measured):
        points = style.of_mechanism(cell.mechanism).for_matplotlib()
        points["linestyle"] = "none"
        name = mechanisms.mechanism_label(cell.mechanism)
        share = 100 * noise_response.share_at(curve, cell.formula)
        axes.plot(
            cell.formula,
            share,
            **points,
            label=None if name in in_legend else name,
        )
        if cell.needed.exact:
            axes.plot(
                cell.needed.least,
                100 * cell.share,
                **points,
                markersize=7,
                markeredgewidth=0.8,
                fillstyle="none",
            )
        in_legend.add(name)
    hollow = {"marker": "o", "markersize": 7, "fillstyle": "none"}
    axes.plot([], [], color=style.GREY, linestyle="none", **hollow, label="needed")
    settings = measured.result["settings"]
    figures.log_axis(axes, "x")
    axes.set_title(
        f"{scenario.name}, |D| = {scenario.num_examples:,.0f}\n"
        f"curve: {settings['model']} on {settings['dataset']}"
    )
    axes.set_xlabel("std of the averaged noise")
    axes.set_ylabel("% of the noise-free accuracy")


def _by_round(
    preset: str, shown: list[Result], epsilon: float, field: str
) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        for group in shown:
            if group["epsilon"] != epsilon:
                continue
            values = group[field]
            if field == "epsilon_spent":
                values = values["basic"]
            name = group["mechanism"]
            figures.curve(
                axes,
                range(1, len(values) + 1),
                values,
                style.of_mechanism(name),
                label=mechanisms.mechanism_label(name),
            )
        label = "L2 norm of an upload's noise"
        if field == "epsilon_spent":
            label = "cumulative ε by basic composition"
        axes.set_title(f"{preset.split('_')[-1]}, ε = {epsilon:g} per upload")
        figures.round_axis(axes)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)

    return draw


def _contribution(axes: Any, result: Result) -> None:
    groups = tables.guided(result)
    for place, group in enumerate(groups):
        values = group["contribution_ratio_mean"]
        look = style.of_mechanism(group["mechanism"])
        figures.curve(
            axes,
            range(1, len(values) + 1),
            values,
            style.shaded(look, place, len(groups))._replace(
                marker=style.numbered(place).marker, dash=style.numbered(place).dash
            ),
            label=f"{mechanisms.mechanism_label(group['mechanism'])}, "
            f"ε = {group['epsilon']:g}",
        )
    axes.set_title("Contribution of the private data")
    figures.round_axis(axes)
    axes.set_ylabel("contribution ratio R")
