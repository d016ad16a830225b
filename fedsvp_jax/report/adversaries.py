"""Cumulative ε for each adversary, as metrics.jsonl says it."""

from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.report import guarantees, labels, read, spent, style
from fedsvp_jax.report.plots import Plot, Series

METHOD = "rdp"  # of `rdp_by_adversary`; PLD takes ten times as long and more
NUM_POINTS = 20


def adversaries_plot(run: read.RunFiles) -> Plot:
    """Cumulative ε, one curve for each adversary with an RDP guarantee in summary.json.

    At evenly spaced rounds, the last one included, so that the curves end at the
    table's numbers. There is no series where the rows do not say it.
    """
    rows = [
        row
        for row in guarantees.rows_of(run.summary)
        if row.get("method") == METHOD and row.get("copies", 1) == 1
    ]
    last = len(run.metrics)
    shown = sorted({-(-last * i // NUM_POINTS) - 1 for i in range(1, NUM_POINTS + 1)})
    points = [run.metrics[place] for place in shown]
    told = [row for row in rows if row.get("adversary") in _said(points[-1])]
    meanings = {
        str(row["adversary"]): meaning(row | {"adversary": ""}, row["status"])
        for row in told
    }
    return Plot(
        "adversaries",
        "Cumulative ε by adversary",
        f"{labels.method_label(METHOD)}. The table below says what each adversary is"
        " assumed to see." + spent.neighbours_note(meanings.values()),
        "round",
        spent.axis_title(meanings, spent.delta_text(METHOD, run.summary)),
        [
            Series(
                keys={"adversary": name},
                name=name,
                x=[point["round"] for point in points],
                y=[read.number(_said(point).get(name)) for point in points],
                look=style.numbered(index),
            )
            for index, name in enumerate(meanings)
        ],
    )


def _said(row: read.Row) -> read.Row:
    return row.get("rdp_by_adversary") or {}
