"""Texts of ε: with its δ, its status, its adversary and its relation.

Basic composition's ε holds at Σδ, the sum of the δ that the uploads claimed; the
other methods' at the setting target_delta.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.report import labels, read

_NEIGHBOURS = "neighbours: "  # as `claims.meaning` begins its last part


def delta_text(method: str, row: Mapping[str, Any]) -> str:
    """`Σδ = 0.573` for basic, `δ = 1e-05` for the others; empty where not recorded.

    Args:
      method: of accounting.
      row: with `delta_spent` and `target_delta`, as a line of metrics.jsonl or
        results.jsonl, summary.json and a row of table.csv have them.
    """
    symbol, name = ("Σδ", "delta_spent") if method == "basic" else ("δ", "target_delta")
    value = read.number(row.get(name))
    return "" if value is None else f"{symbol} = {labels.significant(value, 3)}"


def status_text(status: Mapping[str, str]) -> str:
    """`nominal` or `proved`; `basic nominal, rdp proved` where they differ."""
    words = set(status.values())
    if len(words) < 2:
        return "".join(words)
    return ", ".join(f"{method} {word}" for method, word in status.items())


def marked(text: str, status: str | None) -> str:
    """`text (nominal)`; the text alone where no status is known."""
    return f"{text} ({status})" if status else text


def spent_line(summary: Mapping[str, Any]) -> str:
    """The terminal's line: `epsilon_spent (nominal; …): basic 10.5 at Σδ = 0.57, …`."""
    status = summary["status"]
    if status is None:
        return "epsilon_spent: none is claimed"
    uniform = len(set(status.values())) == 1
    spent = []
    for method, value in summary["epsilon_spent"].items():
        text = f"{method} {value:.4g} at {delta_text(method, summary)}"
        spent.append(text if uniform else marked(text, status[method]))
    shared = meaning(summary, status_text(status) if uniform else None)
    return f"{marked('epsilon_spent', shared)}: {', '.join(spent)}"


def columns(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The columns of a table that show ε spent, one per method, and what it means.

    Args:
      rows: with `epsilon_spent`, `delta_spent`, `target_delta`, `status`, `adversary`
        and `relation`.

    Returns:
      The cells of every row by column. δ stands in the column's name where it is that
      of all rows, else beside each ε.
    """
    methods = read.spent_methods(rows)
    shared = {}
    for method in methods:
        deltas = {text for row in rows if (text := delta_text(method, row))}
        if method != "basic" and len(deltas) == 1:
            shared[method] = f", {deltas.pop()}"
    cells = []
    for row in rows:
        of_row = {}
        for method in methods:
            value = read.number((row.get("epsilon_spent") or {}).get(method))
            delta = "" if method in shared else delta_text(method, row)
            text = labels.significant(value)
            text += f" at {delta}" if delta and value is not None else ""
            of_row[f"ε spent, {method}{shared.get(method, '')}"] = text
        of_row |= {
            "status": status_text(row.get("status") or {}) or "–",
            "against": row.get("adversary") or "–",
            "neighbours": row.get("relation") or "–",
        }
        cells.append(of_row)
    return cells


def least_columns(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The columns of a table that show one ε spent, its status and what it means.

    The ε is the least over the accounting methods at `target_delta`, or that of basic
    composition where no other is known.

    Args:
      rows: as of `columns`.
    """
    shared = {row["target_delta"] for row in rows if row.get("target_delta")}
    (delta,) = shared if len(shared) == 1 else (None,)
    head = "ε spent" if delta is None else f"ε spent at δ = {labels.significant(delta)}"
    cells = []
    for row in rows:
        epsilons = {
            method: value
            for method, spent in (row.get("epsilon_spent") or {}).items()
            if (value := read.number(spent)) is not None
        }
        at_delta = {
            name: epsilons[name] for name in epsilons if name != "basic"
        } or epsilons
        method = min(at_delta, key=at_delta.__getitem__, default="")
        text = labels.significant(at_delta.get(method))
        if method and (delta is None or method == "basic"):
            text += f" at {delta_text(method, row)}"
        against, relation = row.get("adversary"), row.get("relation")
        cells.append(
            {
                head: text,
                "status": (row.get("status") or {}).get(method, "–"),
                "against": f"{against} (neighbours: {relation})" if against else "–",
            }
        )
    return cells


def axis_title(meanings: Mapping[str, str], delta: str = "") -> str:
    """A plot's axis: `ε spent at δ = 1e-05 (proved; against: …)`.

    The neighbours are in the plot's note (`neighbours_note`), which has room.

    Args:
      meanings: of each curve by its name, as `claims.meaning` writes it; curves
        that differ are named.
      delta: as `delta_text` writes it.
    """
    title = f"ε spent at {delta}" if delta else "ε spent"
    names: dict[str, list[str]] = {}
    for name, words in meanings.items():
        if words:
            names.setdefault(without_neighbours(words), []).append(name)
    if len(names) < 2:
        return marked(title, next(iter(names), None))
    clauses = (f"{', '.join(curves)}: {words}" for words, curves in names.items())
    return marked(title, " | ".join(clauses))


def without_neighbours(words: str) -> str:
    """`nominal; against: server`, where a sentence beside it names the neighbours."""
    return words.partition(_NEIGHBOURS)[0].rstrip("; ")


def neighbours_note(meanings: Iterable[str]) -> str:
    """` Neighbours: replace one record of a client.`, of all curves; or nothing."""
    relations = dict.fromkeys(words.partition(_NEIGHBOURS)[2] for words in meanings)
    listed = " | ".join(filter(None, relations))
    return f" Neighbours: {listed}." if listed else ""


def upload_claim(clients: Sequence[read.Row], name: str) -> str:
    """`0.5` or `0.1 to 0.13`, what the uploads claimed; empty without a guarantee.

    Args:
      clients: the lines of clients.jsonl.
      name: `epsilon` or `delta`.
    """
    values = _numbers(row.get(name) for row in clients)
    if not values or len(values) < len(clients):
        return ""
    ends = labels.significant(min(values)), labels.significant(max(values))
    return " to ".join(dict.fromkeys(ends))


def upload_status(clients: Sequence[read.Row], summary: Mapping[str, Any]) -> str:
    """The status of the uploads' claims; empty where nothing is claimed or known.

    Below ε = 1 a claim holds where the bound on the sensitivity does, as Rényi DP
    needs it; at and above 1 also the formula must be proved, as basic needs it.
    """
    status = summary.get("status") or {}
    largest = max(_numbers(row.get("epsilon") for row in clients), default=0.0)
    return str(status.get("rdp" if largest < 1 else "basic") or "")


def _numbers(values: Iterable[object]) -> list[float]:
    numbers = map(read.number, values)
    return [value for value in numbers if value is not None]
