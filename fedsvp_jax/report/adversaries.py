"""Cumulative ε for each adversary, from metrics.jsonl."""

from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.report import guarantees, labels, read, spent, style
from fedsvp_jax.report.plots import Plot, Series

METHOD = "rdp"  # of `rdp_by_adversary`; PLD takes ten times as long and more
NUM_POINTS = 20


def adversaries_plot(run: read.RunFiles) -> Plot:
    """Cumulative ε, one curve for each adversary with an RDP guarantee in summary.json.

    The rounds are evenly spaced and include the last one, so that the curves end at
    the table's numbers. An adversary that the rows do not name has no curve.
    """
    rows = [
        row
        for row in guarantees.rows_of(run.summary)
        if row.get("method") == METHOD and row.get("copies", 1) == 1
    ]
    last = len(run.metrics)
    places = sorted({-(-last * i // NUM_POINTS) - 1 for i in range(1, NUM_POINTS + 1)})
    points = [run.metrics[place] for place in places]
    claims = [row for row in rows if row.get("adversary") in _epsilons(points[-1])]
    meanings = {
        str(row["adversary"]): meaning(row | {"adversary": ""}, row["status"])
        for row in claims
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
                y=[read.number(_epsilons(point).get(name)) for point in points],
                look=style.numbered(index),
            )
            for index, name in enumerate(meanings)
        ],
    )


def _epsilons(row: read.Row) -> read.Row:
    return row.get("rdp_by_adversary") or {}
