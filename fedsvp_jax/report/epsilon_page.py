"""epsilon.html: what each ε of the run is worth, and epsilon.json with its numbers.

For those who decide on an ε: a slider over the ε that were computed, accuracy with its
interval beside FedAvg and guessing, and risk as natural frequencies (Nanayakkara et al.
2023, arXiv 2303.00738). The page's script only places what stands in its data; every
number and sentence is made here, from a sweep's files.

The JSON's `nist_sp_800_226` names the parts of the differential privacy pyramid of NIST
SP 800-226 (March 2025). Parts that this program cannot know are marked as open.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.accounting.claims import METHODS
from fedsvp_jax.core import student
from fedsvp_jax.report import guarantees, headline, labels, page, read, tables

_OPEN = "not known to this program: to be stated by whoever holds the data"
_LEFT_OUT = ("basic", "none")  # accountings at another δ, or without an ε
_STATUS = {"proved": "proved", "nominal": "nominal, not proved"}
_FACTS = {  # by the id under which the script places them
    "status": "proved or nominal",
    "spent": "ε spent, at most",
    "delta": "δ",
    "tpr": "recognised at 1 % false alarms (TPR)",
    "mu": "μ of Gaussian DP",
    "left": "rounds left under the promise",
}
_COLUMNS = ("adversary", "relation", "spent", "right", "tpr", "mu", "status")
_NORMAL = 1.959964  # 97.5 % quantile of the normal distribution


def document(
    sweep: read.SweepFiles,
    *,
    reference: Mapping[str, Any] | None = None,
    rows: str = "",
) -> dict[str, Any]:
    """The content of epsilon.json.

    Args:
      sweep: the files of a finished sweep.
      reference: FedAvg's accuracy with its interval; the sweep's own by default.
      rows: whose rows were trained and tested on, in words, if not the data set's.

    Returns:
      `points`, one per mechanism and ε; none where nothing is claimed.
    """
    summary = tables.summarize(sweep.results)
    first: Mapping[str, Any] = sweep.cells[0] if sweep.cells else {}
    fedavg = next((row for row in summary if row.mechanism == "none"), None)
    if reference is None and fedavg is not None:
        reference = _accuracy(fedavg, first.get("test_rows"))
    points = [
        point
        for row in summary
        if (point := _point(row, _cells_of(row, sweep.cells))) is not None
    ]
    return {
        "format": 1,
        "data": labels.data_name(sweep.config),
        "rows": rows
        or "the data set's test rows"
        + (", which no ε covers" if headline.unprotected(sweep.config) else ""),
        "fedavg": reference,
        "guessing": first.get("guessing"),
        "test_rows": first.get("test_rows"),
        "points": points,
        "nist_sp_800_226": _pyramid(sweep.config, points),
    }


def _cells_of(row: tables.SummaryRow, cells: Iterable[read.Row]) -> list[read.Row]:
    names = ("mechanism", "epsilon", "total_epsilon")
    return [
        cell
        for cell in cells
        if all(cell.get(name) == getattr(row, name) for name in names)
    ]


def _accuracy(row: tables.SummaryRow, test_rows: int | None) -> dict[str, Any] | None:
    """Mean of the last five evaluated rounds and its 95 % interval.

    By Student's t over seeds; of one seed that of its test rows (Wilson 1927).
    """
    mean, seeds = row.last5_mean, row.num_seeds
    if mean is None:
        return None
    if row.last5_std is not None:
        half = float(student.half_width(row.last5_std, seeds))
        low, high, interval = (
            mean - half,
            mean + half,
            f"of the mean over {seeds} seeds",
        )
    elif test_rows:
        square = _NORMAL**2 / test_rows
        middle = (mean + square / 2) / (1 + square)
        half = math.sqrt(square * (mean * (1 - mean) + square / 4)) / (1 + square)
        low, high, interval = (
            middle - half,
            middle + half,
            f"of {test_rows} test rows, 1 seed",
        )
    else:
        low, high, interval = mean, mean, "not known"
    ends = {"lower": max(0.0, low), "upper": min(1.0, high)}
    return {"mean": mean, **ends, "interval": interval, "seeds": seeds}


def _point(row: tables.SummaryRow, cells: Sequence[read.Row]) -> dict[str, Any] | None:
    """The point of a mechanism and ε; None where nothing finite is claimed."""
    accuracy = _accuracy(row, cells[0].get("test_rows") if cells else None)
    claims = _guarantees(cells)
    if accuracy is None or not claims:
        return None
    main_claims = [claim for claim in claims if claim["adversary"] == row.adversary]
    uploads_left = [
        cell["uploads_left"] for cell in cells if cell.get("uploads_left") is not None
    ]
    return {
        "mechanism": mechanisms.about(row.mechanism).label,
        "epsilon": row.total_epsilon or (main_claims or claims)[0]["epsilon"],
        "promised": row.total_epsilon is not None,
        "adversary": row.adversary,
        "accuracy": accuracy,
        "rounds": row.num_rounds,
        "uploads_left": min(uploads_left) if uploads_left else None,
        "guarantees": claims,
    }


def _guarantees(cells: Iterable[read.Row]) -> list[dict[str, Any]]:
    """The least proved ε of the worst seed, for each adversary and relation."""
    worst: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in cells:
        best: dict[tuple[str, str], dict[str, Any]] = {}
        for claim in guarantees.rows_of(cell):
            epsilon = read.number(claim.get("epsilon"))
            if claim.get("method") in _LEFT_OUT or epsilon is None:
                continue
            key, rank = (str(claim["adversary"]), str(claim["relation"])), _rank(claim)
            if key not in best or rank < _rank(best[key]):
                best[key] = claim
        for key, claim in best.items():
            risk = (cell.get("risk") or {}).get(key[0])  # of what was spent
            spent = claim["method"] in METHODS and claim.get("copies", 1) == 1
            if risk is None or not spent or cell["relation"] != key[1]:
                exact = bool((risk or {}).get("exact"))
                risk = tradeoff.risk([(claim["epsilon"], claim["delta"])], exact=exact)
            if key not in worst or claim["epsilon"] > worst[key]["epsilon"]:
                worst[key] = claim | {"risk": risk}
    return list(worst.values())


def _rank(row: read.Row) -> tuple[bool, float]:
    return row["status"] != "proved", row["epsilon"]


def _pyramid(config: read.Row, points: Sequence[read.Row]) -> dict[str, Any]:
    """The parts of NIST's pyramid, from the top."""
    claims = [claim for point in points for claim in point["guarantees"]]
    sampler = config.get("noise_sampler", "float")
    return {
        "privacy_parameters": "ε and δ of each point's guarantees, over the whole run",
        "unit_of_privacy": list(dict.fromkeys(claim["relation"] for claim in claims)),
        "algorithms": list(dict.fromkeys(point["mechanism"] for point in points)),
        "correctness": "each guarantee's status: proved end to end, or nominal",
        "utility": "each point's accuracy beside FedAvg and guessing",
        "bias": "accuracy by group is in table.csv where the data name groups",
        "trust_model": list(dict.fromkeys(claim["adversary"] for claim in claims)),
        "query_model": f"one training of {config.get('num_rounds')} rounds; other "
        "releases of the same data are not counted",
        "side_channels": f"noise sampler: {sampler}; times are not hidden",
        "access_control": _OPEN,
        "data_collection_exposure": _OPEN,
    }


def write_epsilon_page(
    folder: str | Path, content: Mapping[str, Any], *, timestamp: str | None = None
) -> list[Path]:
    """Writes FOLDER/epsilon.html and epsilon.json; neither where there is no point.

    Returns:
      The paths.
    """
    if not content["points"]:
        return []
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    read.write_text(place / "epsilon.json", text + "\n")
    html = page.write(
        place / "epsilon.html",
        title=f"What an ε is worth: {content['data']}",
        subtitle=f"Accuracy and risk by the ε of the whole run, on {content['rows']}.",
        sections=[
            ("choose", "Choose an ε", _chooser(content)),
            ("all", "All that were computed", _table(content)),
            ("nist", "For an assessment (NIST SP 800-226)", _nist(content)),
        ],
        data={"plots": [], "points": _shown_points(content)},
        timestamp=timestamp,
        scripts=("epsilon.js",),
        plotly=False,
    )
    return [html, place / "epsilon.json"]


def _shown_points(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points as the script shows them, by increasing ε."""
    ordered = sorted(content["points"], key=lambda point: point["epsilon"])
    return [
        {
            "mechanism": point["mechanism"],
            "epsilon": labels.significant(point["epsilon"], 3),
            "accuracy": _accuracy_text(point["accuracy"]),
            "mean": labels.percent(point["accuracy"]["mean"], digits=1) + " %",
            "scale": _scale(point["accuracy"]),
            "left": _left_text(point),
            "guarantees": [_shown_guarantee(claim) for claim in point["guarantees"]],
            "main": point["adversary"],
        }
        for point in ordered
    ]


def _shown_guarantee(claim: Mapping[str, Any]) -> dict[str, Any]:
    risk, status = claim["risk"], claim["status"]
    right = math.ceil(risk["right_of_100"] - 1e-9)
    recognised = math.ceil(1000 * risk["recognised"] - 1e-9)
    return {
        "adversary": claim["adversary"],
        "relation": claim["relation"],
        "status": status,
        "claim": headline.claim(claim, _STATUS[status]),
        "right": right,
        "guess": "Somebody who knows all other rows guesses, at even odds, whether "
        f"this one was there. At most {right} of 100 are right; without a run, 50.",
        "known": f"Of 1,000 rows that were there he recognises at most {recognised}, "
        "if he wrongly accuses 10 of 1,000 that were not; without a run, 10.",
        "tpr": f"{labels.percent(risk['recognised'])} %",
        "mu": labels.significant(risk["mu"], 3),
        "delta": labels.significant(claim["delta"], 3),
        "spent": labels.significant(claim["epsilon"], 4),
        "assumptions": str(claim.get("assumptions") or "nothing more").split("; "),
    }


def _left_text(point: Mapping[str, Any]) -> str:
    uploads_left, rounds = point["uploads_left"], point["rounds"]
    if uploads_left is None:
        return f"no limit was promised; {rounds} were run"
    if uploads_left:
        return f"{uploads_left} of each client, after {rounds}"
    return f"0: all of ε is spent in {rounds}"


def _accuracy_text(value: Mapping[str, Any]) -> str:
    ends = [labels.percent(value[name], digits=1) for name in ("lower", "upper")]
    mean = labels.percent(value["mean"], digits=1)
    return f"{mean} % (95 % interval {ends[0]} to {ends[1]}, {value['interval']})"


def _scale(value: Mapping[str, Any]) -> dict[str, str]:
    """Places on a scale from 0 to 100 %, as CSS lengths."""
    width = value["upper"] - value["lower"]
    ends = {"left": value["lower"], "width": width, "mean": value["mean"]}
    return {name: f"{100 * number:.2f}%" for name, number in ends.items()}


def _chooser(content: Mapping[str, Any]) -> page.Markup:
    names = list(dict.fromkeys(point["mechanism"] for point in content["points"]))
    marks, sentences = [], []
    if content["fedavg"] is not None:
        marks.append(("mark", _scale(content["fedavg"])["mean"], "FedAvg"))
        text = _accuracy_text(content["fedavg"])
        sentences.append(f"FedAvg, which hides nothing: {text}.")
    if content["guessing"] is not None:
        share = content["guessing"]
        marks.append(("mark low", f"{100 * share:.2f}%", "guessing"))
        sentences.append(
            "Guessing the most frequent class: "
            f"{labels.percent(share, digits=1)} % of {content['test_rows']} test rows."
        )
    return page.part("epsilon_slider", names, marks, sentences, list(_FACTS.items()))


def _table(content: Mapping[str, Any]) -> page.Markup:
    heads = ["mechanism", "ε of the run", "accuracy", "against", "what may change"]
    heads += ["ε spent", "of 100 guesses right", "TPR at 1 %", "μ", "status"]
    rows = [
        [point[name] for name in ("mechanism", "epsilon", "mean")]
        + [claim[name] for name in _COLUMNS]
        for point in _shown_points(content)
        for claim in point["guarantees"]
    ]
    caption = (
        "All but accuracy are at most. TPR: rows recognised at 1 % false alarms. μ: of "
        "the Gaussian mechanism that hides no more."
    )
    return page.table(heads, rows, caption=caption)


def _nist(content: Mapping[str, Any]) -> page.Markup:
    rows = [
        (name.replace("_", " "), "; ".join(text) if isinstance(text, list) else text)
        for name, text in content["nist_sp_800_226"].items()
    ]
    caption = (
        "The parts of the differential privacy pyramid; epsilon.json has them too."
    )
    return page.table(("part", "here"), rows, caption=caption)
