"""The guarantees of a run, and which of them are nominal."""

from collections.abc import Mapping

from fedsvp_jax.report import labels, page, read


def rows_of(summary: read.Row) -> list[read.Row]:
    """The guarantees of summary.json or of a cell, each with its `status`."""
    return [row for row in summary.get("guarantees") or [] if isinstance(row, dict)]


def nominal_note(summaries: Mapping[str, read.Row]) -> page.Markup:
    """A paragraph that names the nominal ε of several results; empty for none.

    Args:
      summaries: the entries of summary.json or cells.json, by the result's name.
    """
    entries = []
    for name, summary in summaries.items():
        nominal = [row for row in rows_of(summary) if row.get("status") == "nominal"]
        methods = dict.fromkeys(str(row.get("method")) for row in nominal)
        if methods:
            entries.append(f"{name} ({', '.join(methods)})")
    if not entries:
        return ""
    sentence = f"ε spent is nominal, that is, not proved: {'; '.join(entries)}."
    return page.part("paragraphs", [sentence])


def table(summary: read.Row) -> page.Markup:
    """The table of guarantees and the numbered list of their assumptions."""
    rows = rows_of(summary)
    if "published_scores" in summary:
        rows.append(summary["published_scores"])
    if not rows:
        return page.part("paragraphs", ["This run has no finite privacy guarantee."])
    columns = {
        "adversary": "adversary",
        "relation": "neighbouring relation",
        "method": "accounting",
        "epsilon": "ε",
        "delta": "δ",
        "status": "status",
    }
    assumptions = [str(row.get("assumptions") or "").split("; ") for row in rows]
    listed = list(
        dict.fromkeys(
            assumption for row in assumptions for assumption in row if assumption
        )
    )
    cells = [
        [
            *(_text(row.get(name)) for name in columns),
            ", ".join(
                str(1 + listed.index(assumption)) for assumption in used if assumption
            ),
        ]
        for row, used in zip(rows, assumptions, strict=True)
    ]
    table = page.table(
        [*columns.values(), "assumptions"],
        cells,
        caption="The guarantee against each adversary. The last column gives the"
        " numbers of its assumptions in the list below. Nominal: not proved.",
        methods=[str(row.get("method")) for row in rows],
    )
    return table + page.part("items", "Assumptions", listed, numbered=True)


def _text(value: object) -> str:
    if value is None or isinstance(value, int | float):
        return labels.significant(read.number(value))
    return str(value)
