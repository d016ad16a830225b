"""Draw a plot for plotly.js: plain dictionaries, ready for JSON.

plotly.js interprets a subset of HTML in every string, so strings from flags and files
are escaped here. The downloads keep them unchanged.
"""

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fedsvp_jax.report.plots import HeatMap, Plot, Series
from fedsvp_jax.report.style import SEQUENTIAL, channels

Spec = dict[str, Any]
_LINE = 30  # characters of an axis' title

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_LAYOUT: Spec = {
    "font": {"family": _FONT, "size": 12, "color": "#1b1f24"},
    "paper_bgcolor": "#ffffff",
    "plot_bgcolor": "#ffffff",
    "margin": {"l": 64, "r": 16, "t": 40, "b": 52},
}


def plotly_spec(plot: Plot) -> Spec:
    """The `data` and `layout` of plotly.js's `newPlot`."""
    panels = plot.panels
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    data: list[Spec] = []
    in_legend: set[str] = set()
    for index, panel in enumerate(panels):
        for series in plot.series:
            if series.panel in ("", panel):
                traces = _traces(series, _axis_suffix(index), small=len(panels) > 1)
                traces[-1]["showlegend"] = series.name not in in_legend
                in_legend.add(series.name)
                data += traces
    legend_lines = _legend_lines(plot) if len(panels) > 1 else 0
    height = 330 if rows == 1 else 60 + 260 * rows
    extra_lines = len(_lines(plot.x_title)) - 1  # of the title that the legend is below
    layout = _LAYOUT | {
        "height": height + 19 * (legend_lines + extra_lines),
        "hovermode": "closest" if plot.series[0].marks else "x unified",
        "hoverlabel": {"namelength": -1},
        "showlegend": len(plot.series) > 1,
        "legend": {
            "orientation": "h",
            "y": -(0.26 + 0.08 * extra_lines) / rows,
            "yanchor": "top",
            "groupclick": "toggleitem",
        },
        "annotations": _panel_titles(panels),
    }
    if len(panels) > 1:
        layout["grid"] = {"rows": rows, "columns": columns, "pattern": "independent"}
    for index in range(len(panels)):
        suffix = _axis_suffix(index)
        first = index % columns == 0
        x_axis = _axis(plot.x_title, index) | _round_ticks(plot)
        layout[f"xaxis{suffix}"] = x_axis | ({"type": "log"} if plot.log_x else {})
        y_axis = _axis(plot.y_title if first else "", index)
        y_axis |= {"type": "log"} if plot.log_y else {}
        low, high = _with_margin(plot)
        y_axis |= {"autorangeoptions": {"include": [low, high]}}
        if low == high and not plot.log_y:
            y_axis |= {"rangemode": "tozero"}
        digits = sum(high - low < width for width in (0.06, 0.006))
        y_axis |= {"tickformat": f".{digits}%"} if plot.percent_y else {}
        y_axis |= {"matches": "y"} if index else {}
        layout[f"yaxis{suffix}"] = y_axis
    return {"data": data, "layout": layout}


def heat_map_spec(plot: HeatMap) -> Spec:
    """The same of a heat map, on which the first row is on top."""
    last = len(SEQUENTIAL) - 1
    trace: Spec = {
        "type": "heatmap",
        "x": [escaped(name) for name in plot.columns],
        "y": [escaped(name) for name in plot.rows],
        "z": [
            [v if v is None else float(f"{v:.3g}") for v in row] for row in plot.cells
        ],
        "colorscale": [[place / last, color] for place, color in enumerate(SEQUENTIAL)],
        "colorbar": {"title": {"text": escaped(plot.z_title), "side": "right"}},
        "hoverongaps": False,
    }
    x_axis, y_axis = _axis(plot.x_title, 0), _axis(plot.y_title, 0)
    layout = _LAYOUT | {
        "height": max(330, 160 + 12 * len(plot.rows)),
        "xaxis": x_axis | {"type": "category", "showgrid": False},
        "yaxis": y_axis
        | {"type": "category", "showgrid": False, "autorange": "reversed"},
    }
    return {"data": [trace], "layout": layout}


def escaped(text: str) -> str:
    """Text that plotly.js shows as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def rounded(values: Sequence[Any]) -> list[Any]:
    """Floats rounded to six significant digits, which keeps pages small."""
    return [float(f"{v:.6g}") if isinstance(v, float) else v for v in values]


def _axis_suffix(index: int) -> str:
    return "" if index == 0 else str(index + 1)


def _lines(title: str) -> list[str]:
    return textwrap.wrap(escaped(title), _LINE) or [""]


def _axis(title: str, index: int) -> Spec:
    axis: Spec = {
        "title": {"text": "<br>".join(_lines(title)), "standoff": 8},
        "automargin": True,
        "gridcolor": "#e3e6ea",
        "linecolor": "#8a929c",
        "zeroline": False,
        "ticks": "outside",
    }
    return axis | ({"matches": "x"} if index and title else {})


def _round_ticks(plot: Plot) -> Spec:
    """A tick per round where plotly.js would put some between two rounds."""
    last = max(
        (x for series in plot.series for x in series.x if x is not None), default=0
    )
    return {"dtick": 1} if plot.counts_rounds and last <= 10 else {}


def _legend_lines(plot: Plot) -> int:
    """Lines of the longest of a legend's columns, one per panel, each with a title."""
    counts = Counter(series.panel for series in plot.series)
    return 1 + max(counts.values())


def _panel_titles(panels: Sequence[str]) -> list[Spec]:
    return [
        {
            "text": f"<b>{escaped(panel)}</b>",
            "xref": f"x{_axis_suffix(index)} domain",
            "yref": f"y{_axis_suffix(index)} domain",
            "x": 0,
            "y": 1,
            "xanchor": "left",
            "yanchor": "bottom",
            "showarrow": False,
        }
        for index, panel in enumerate(panels)
        if panel
    ]


def _with_margin(plot: Plot) -> list[float]:
    """The values' range plus a margin; without it plotly.js cuts off the extremes."""
    numbers = [
        value
        for series in plot.series
        for values in (series.y, series.lower or (), series.upper or ())
        for value in values
        if value is not None and (value > 0 or not plot.log_y)
    ]
    low, high = min(numbers), max(numbers)
    if plot.log_y:
        return [low / 1.15, high * 1.15]
    margin = 0.05 * (high - low)
    return rounded([low - margin, high + margin])


def _traces(series: Series, suffix: str, *, small: bool) -> list[Spec]:
    """The band's two edges, then the line. A panel of several is a legend group."""
    name = escaped(series.name_in_panel if small else series.name)
    place: Spec = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
    if small:
        title = escaped(series.panel or series.name)
        place |= {"legendgroup": title, "legendgrouptitle": {"text": title}}
    color, marker, dash = series.look
    x = rounded(series.x)
    traces: list[Spec] = []
    if series.lower is not None and series.upper is not None and not series.marks:
        band = place | {
            "type": "scatter",
            "x": x,
            "mode": "lines",
            "line": {"width": 0},
            "hoverinfo": "skip",
            "showlegend": False,
        }
        fill = {"fill": "tonexty", "fillcolor": _transparent(color)}
        traces.append(band | {"y": rounded(series.lower)})
        traces.append(band | {"y": rounded(series.upper)} | fill)
    line = place | {
        "type": "scatter",
        "name": name,
        "x": x,
        "y": rounded(series.y),
        "mode": "lines+markers" if series.marks or len(series.x) < 2 else "lines",
        "line": {"color": color, "width": 2, "dash": dash},
        "marker": {"symbol": marker, "size": 8},
    }
    if series.marks:
        line |= {"error_y": _error_bars(series)}
    return [*traces, line]


def _error_bars(series: Series) -> Spec:
    upper = series.upper or [None] * len(series.y)
    half = [
        None if high is None or y is None else high - y
        for high, y in zip(upper, series.y, strict=True)
    ]
    return {"type": "data", "array": rounded(half), "thickness": 1.5, "width": 4}


def _transparent(color: str) -> str:
    return f"rgba({','.join(map(str, channels(color)))},0.14)"
