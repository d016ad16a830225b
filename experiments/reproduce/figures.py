"""The figures of docs/reproduction.md, made from the same results as its tables."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.report import figures, style

from . import published_noise, tables
from .evidence import (
    CONTRIBUTION,
    NOISE_FIGURES,
    SCENARIOS,
    Evidence,
    Scenario,
    sizes,
)
from .results import Result

# As titles call them.
_DATA = {"cifar10": "CIFAR-10", "femnist": "FEMNIST (LEAF)"}
_MODELS = {
    "scatter_linear": "a linear layer on scattering features",
    "small_cnn": "a small CNN",
    "leaf_cnn": "LEAF's CNN",
}


def write_figures(evidence: Evidence, folder: Path, kind: str = "svg") -> list[Path]:
    """Draws every figure for which there are results; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    responses: list[Callable[[Any], None]] = []
    for scenario in SCENARIOS:
        measured = published_noise.response_of(evidence, scenario)
        if measured is not None:
            cells = published_noise.cells(evidence, scenario, measured)
            responses.append(partial(_response, scenario=scenario, measured=measured))
            responses.append(partial(_noises, cells=cells))
    if responses:
        paths.append(
            figures.panels(
                folder / f"noise_response.{kind}", responses, plot_height=2.4
            )
        )
    shown = {
        result["settings"]["dataset"]: tables.shown_noise(result)
        for preset in NOISE_FIGURES
        for _, result in sizes(evidence, preset)[-1:]
    }
    epsilons = sorted({group["epsilon"] for one in shown.values() for group in one})
    # A column per data set, a row per ε; the last row is what is spent.
    panels = [
        _by_round(_DATA.get(name, name), groups, epsilon, field)
        for field, levels in (("noise_l2", epsilons), ("epsilon_spent", epsilons[-1:]))
        for epsilon in levels
        for name, groups in shown.items()
    ]
    if panels:
        paths.append(figures.panels(folder / f"noise_by_round.{kind}", panels))
    for _, result in sizes(evidence, CONTRIBUTION)[-1:]:
        if tables.guided(result):
            path = folder / f"contribution.{kind}"
            paths.append(figures.panels(path, [partial(_contribution, result=result)]))
    return paths


def _response(
    axes: Any, scenario: Scenario, measured: published_noise.Measured
) -> None:
    """Accuracy against noise: the mean over seeds, and each seed."""
    curve = measured.curve
    if len(measured.by_seed) > 1:
        for place, one in enumerate(measured.by_seed):
            name = "single seeds" if place == 0 else None
            shares = 100 * one.share
            axes.plot(one.std, shares, color=style.GREY, linewidth=0.6, label=name)
    seeds = len(measured.by_seed)
    name = f"mean of {seeds} seeds" if seeds > 1 else "one seed"
    look = style.numbered(0)
    means = (100 * curve.share).tolist()
    figures.curve(axes, curve.std.tolist(), means, look, label=name)
    figures.log_axis(axes, "x")
    settings = measured.result["settings"]
    data = _DATA.get(settings["dataset"], settings["dataset"])
    axes.set_title(
        f"{scenario.name} as published, |D| = {scenario.num_examples:,.0f}\n"
        f"measured: {_MODELS.get(settings['model'], settings['model'])}, {data}"
    )
    axes.set_xlabel("standard deviation of the averaged noise")
    axes.set_ylabel("% of the noise-free accuracy")


def _noises(axes: Any, cells: list[published_noise.Cell]) -> None:
    """Each published cell: the noise of its formula, joined with what it would need."""
    names = list(dict.fromkeys(cell.mechanism for cell in cells))
    for place, name in enumerate(names):
        look = style.of_mechanism(name)._replace(dash="solid").for_matplotlib()
        mine = sorted(
            (cell for cell in cells if cell.mechanism == name),
            key=lambda cell: (cell.table, cell.epsilon),
        )
        for row, cell in enumerate(mine):
            height = -place - 0.8 * ((row + 0.5) / len(mine) - 0.5)
            dots = look | {"linestyle": "none", "markersize": 3}
            if cell.needed.exact:
                ends = [cell.formula, cell.needed.least]
                axes.plot(ends, [height] * 2, color=look["color"], linewidth=0.5)
                axes.plot(ends[1], height, **dots, markerfacecolor="white")
            axes.plot(cell.formula, height, **dots)
    axes.set_yticks([-place for place in range(len(names))])
    axes.set_yticklabels(
        [mechanisms.mechanism_label(name).replace(" ", "\n") for name in names]
    )
    dot = {"marker": "o", "linestyle": "none", "color": style.GREY}
    axes.plot([], [], **dot, label="by formula")
    needed = "that the published accuracy needs"
    axes.plot([], [], **dot, markerfacecolor="white", label=needed)
    figures.log_axis(axes, "x")
    axes.set_xlabel("standard deviation of the averaged noise")
    axes.set_title("noise of the published cells")


def _by_round(
    data: str, shown: list[Result], epsilon: float, field: str
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
        axes.set_title(f"{data}, ε = {epsilon:g} per upload")
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
