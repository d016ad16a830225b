"""Who contributes: the values of a run's clients on its page."""

import math

from fedsvp_jax.report import labels, page, read
from fedsvp_jax.report.attribute_values import MOST_CLIENTS
from fedsvp_jax.report.plots import HeatMap


def by_client(run: read.RunFiles) -> dict[int, dict[int, read.Row]]:
    """The uploads that have a value, by client and round."""
    uploads: dict[int, dict[int, read.Row]] = {}
    for row in run.clients:
        if read.number(row.get("client_value")) is not None:
            uploads.setdefault(row["client"], {})[row["round"]] = row
    return uploads


def section(run: read.RunFiles) -> tuple[list[HeatMap], page.Markup]:
    """The picture of every upload's value, and the table of their sums, as markup.

    Values of different rounds add up: a client's sum is what its uploads have added to
    the model over the run. Intervals of different rounds err independently, so the
    sum's is sqrt(sum of margin^2).
    """
    uploads = by_client(run)
    if not uploads:
        return [], ""
    sums = {
        client: math.fsum(row["client_value"] for row in rows.values())
        for client, rows in uploads.items()
    }
    order = sorted(sums, key=lambda client: (-sums[client], client))
    rounds = sorted({number for rows in uploads.values() for number in rows})
    corrupted = run.summary.get("corrupted_clients") or []
    table = page.table(
        ("rank", "client", "uploads", "sum of values", "95 % interval"),
        [
            (
                place,
                read.client_name(run.summary, client)
                + (" (corrupted)" if client in corrupted else ""),
                len(uploads[client]),
                labels.significant(sums[client], 3),
                _interval(list(uploads[client].values())),
            )
            for place, client in enumerate(order, start=1)
        ],
        caption="What each client's uploads added to the model, on the server's"
        " validation examples. A dash means that no error is known"
        " (--client_value_models=0).",
    )
    heat = HeatMap(
        "client_values",
        "Shapley value of each upload",
        "Clients from the largest sum to the smallest; a round without the client is"
        " empty."
        + (f" The first {MOST_CLIENTS}." if len(order) > MOST_CLIENTS else ""),
        "round",
        "client",
        "value",
        columns=list(map(str, rounds)),
        rows=[read.client_name(run.summary, client) for client in order[:MOST_CLIENTS]],
        cells=[
            [uploads[client].get(number, {}).get("client_value") for number in rounds]
            for client in order[:MOST_CLIENTS]
        ],
    )
    return [heat], table


def _interval(rows: list[read.Row]) -> str:
    if not any("client_value_margin" in row for row in rows):
        return "exact"
    margins = [read.number(row.get("client_value_margin")) for row in rows]
    if None in margins:
        return labels.significant(None)
    return f"± {math.hypot(*filter(None, margins)):.2g}"
