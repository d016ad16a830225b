"""epsilon.html: what each ε of the run is worth, and epsilon.json with its numbers.

For those who decide on an ε: a slider over the ε that were computed, accuracy with its
interval beside FedAvg and guessing, and risk as natural frequencies. The page's script
only places what stands in its data; every number and sentence is made here, from a
sweep's files. The JSON's `nist_sp_800_226` has the parts of `protection.pyramid`.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.core.files import write_json
from fedsvp_jax.report import headline, labels, page, protection, read, tables

_FACTS = {  # by the id under which the script places them
    "status": "proved or nominal",
    "spent": "ε spent, at most",
    "delta": "δ",
    "tpr": "recognised at 1 % false alarms (TPR)",
    "mu": "μ of Gaussian DP",
    "left": "rounds left under the promise",
}
_COLUMNS = {  # of the table, by their heads
    "mechanism": "mechanism",
    "ε of the run": "epsilon",
    "accuracy": "mean",
    "AUC": "auc",
    "against": "adversary",
    "what may change": "relation",
    "ε spent": "spent",
    "of 100 guesses right": "right",
    "TPR at 1 %": "tpr",
    "μ": "mu",
    "status": "status",
}


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
    summary = tables.summarize(sweep.results, sweep.cells)
    first: Mapping[str, Any] = sweep.cells[0] if sweep.cells else {}
    fedavg = next((row for row in summary if row.mechanism == "none"), None)
    if reference is None and fedavg is not None:
        reference = _accuracy(fedavg, first.get("test_rows"))
    points = [
        point for row in summary if (point := _point(row, sweep.cells)) is not None
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
        "nist_sp_800_226": protection.pyramid(
            sweep.config,
            [claim for point in points for claim in point["guarantees"]],
            algorithms=list(dict.fromkeys(point["mechanism"] for point in points)),
            utility="each point's accuracy beside FedAvg and guessing",
            bias="accuracy by group is in table.csv where the data name groups",
        ),
    }


def _accuracy(row: tables.SummaryRow, test_rows: int | None) -> dict[str, Any] | None:
    """Mean of the last five evaluated rounds and its 95 % interval, and AUC of tables.

    By Student's t over seeds; of one seed that of its test rows (Wilson 1927).
    """
    mean, ends = row.accuracy, row.interval()
    if mean is None:
        return None
    interval = f"of the mean over {row.num_seeds} seeds"
    if ends is None:
        interval = f"of {test_rows} test rows, 1 seed" if test_rows else "not known"
        ends = tables.wilson(mean, test_rows) if test_rows else (mean, mean)
    return {
        "mean": mean,
        "lower": ends[0],
        "upper": ends[1],
        "interval": interval,
        "seeds": row.num_seeds,
        "auc": row.scores["auc"][0],
    }


def _point(row: tables.SummaryRow, cells: Sequence[read.Row]) -> dict[str, Any] | None:
    """The point of a mechanism and ε; None where nothing finite is claimed."""
    cells = [cell for cell in cells if tables.group_of(cell) == row.group]
    accuracy = _accuracy(row, cells[0].get("test_rows") if cells else None)
    claims = protection.strongest(cells)
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


def write_epsilon_page(folder: str | Path, content: Mapping[str, Any]) -> list[Path]:
    """Writes FOLDER/epsilon.html and epsilon.json; neither where there is no point.

    Returns:
      The paths.
    """
    if not content["points"]:
        return []
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    write_json(place / "epsilon.json", content)
    html = page.write(
        place / "epsilon.html",
        title=f"What an ε is worth: {content['data']}",
        subtitle=f"Accuracy and risk by the ε of the whole run, on {content['rows']}.",
        sections=[
            ("choose", "Choose an ε", _chooser(content)),
            ("all", "All that were computed", _table(content)),
            (
                "nist",
                "For an assessment (NIST SP 800-226)",
                protection.pyramid_table(content["nist_sp_800_226"]),
            ),
        ],
        data={"points": _shown_points(content)},
        scripts=("epsilon.js",),
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
            "auc": labels.significant(point["accuracy"].get("auc"), 3),
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
    return {
        "adversary": claim["adversary"],
        "relation": claim["relation"],
        "status": status,
        "claim": headline.claim(claim, protection.STATUS[status]),
        "right": right,
        **dict(zip(("guess", "known"), protection.risk_sentences(claim), strict=True)),
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
    area = f", AUC {value['auc']:.3f}" if value.get("auc") is not None else ""
    ends_text = " to ".join(ends)
    return f"{mean} % (95 % interval {ends_text}, {value['interval']}){area}"


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
    rows = [
        {head: str((claim | point)[name]) for head, name in _COLUMNS.items()}
        for point in _shown_points(content)
        for claim in point["guarantees"]
    ]
    caption = (
        "All but accuracy are at most. TPR: rows recognised at 1 % false alarms. μ: of "
        "the Gaussian mechanism that hides no more."
    )
    return page.table_of(rows, caption=caption)
