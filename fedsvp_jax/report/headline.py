"""The sentences in front of a run: which ε, against whom, and what the model is worth.

They are made from summary.json and config.json alone.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.core.files import read_json
from fedsvp_jax.report import page, read

_OF_RUN = ("rdp", "pld")  # accountings of what was spent, at one δ
_NOMINAL = "nominal, because "
REFERENCE = "reference.json"  # scores without privacy, in a run's folder


def privacy(summary: Mapping[str, Any]) -> str:
    """The claim of the run: neighbours, adversary, ε, δ, and whether it is proved.

    It is about one copy of a record. More copies and stronger adversaries follow with
    their own ε, or with none.
    """
    rows = [
        row
        for row in read.guarantees(summary)
        if row.get("method") in (*_OF_RUN, "none")
    ]

    def least(adversary: str, copied: bool) -> Mapping[str, Any]:
        claims = [
            row
            for row in rows
            if row.get("adversary") == adversary
            and ((row.get("copies") or 1) > 1) == copied
        ]
        return min(claims, key=_epsilon, default={})

    adversaries = [str(row.get("adversary")) for row in rows]  # from the strongest
    main = str(summary.get("adversary"))
    row, copies = least(main, False), least(main, True)
    if math.isinf(_epsilon(row)):
        return f"This run hides nothing (mechanism {summary.get('mechanism')})."
    stronger = {
        adversary: bound
        for adversary in adversaries[: adversaries.index(main)]
        if (bound := _epsilon(least(adversary, False))) > _epsilon(row)
    }
    with_copies = copies and (copies["copies"], _epsilon(copies))
    return filled("privacy", row, _status(row), with_copies, stronger)


def _epsilon(row: Mapping[str, Any]) -> float:
    """ε of a guarantee; infinity where there is none."""
    epsilon = read.number(row.get("epsilon"))
    return math.inf if epsilon is None else epsilon


def _status(row: Mapping[str, Any]) -> str:
    """`proved, unless …`, or `nominal, because …`."""
    assumptions = str(row.get("assumptions") or "").split("; ")
    if row.get("proved"):
        return f"proved, unless one of its {len(assumptions)} assumptions fails"
    why = [text for text in assumptions if text.startswith(_NOMINAL)]
    return why[0] if why else "nominal, not proved"


def spent(summary: Mapping[str, Any]) -> str:
    """The terminal's line: `epsilon_spent (against: …): basic 10.5 at Σδ = 0.57 …`."""
    return filled("spent", summary, meaning(summary))


def published(summary: Mapping[str, Any]) -> str:
    """The accuracy that may be published, and what it claims; "" if there is none."""
    scores = summary.get("published_scores") or {}
    return filled("published", scores, _status(scores))


def unprotected(config: Mapping[str, Any]) -> str:
    """The number of rows that no ε covers, with advice; "" if there is none.

    Args:
      config: config.json of a run or a sweep.
    """
    return filled("unprotected", config)


def filled(macro: str, *values: Any) -> str:
    """The sentences of a macro of templates/sentences.txt, in one line."""
    macros = page.templates().get_template("sentences.txt").module
    return " ".join(getattr(macros, macro)(*values).split())


def sentences(folder: Path, summary: Mapping[str, Any]) -> list[str]:
    """All sentences of a run's folder."""
    config = _content(folder / "config.json")
    written = [privacy(summary), published(summary), unprotected(config)]
    reference = _content(folder / REFERENCE)
    written += [filled("quality", summary, reference), filled("details", summary)]
    return [sentence for sentence in written if sentence]


def _content(path: Path) -> dict[str, Any]:
    """The object in a JSON file; {} where there is none."""
    content: dict[str, Any] = read_json(path) if path.is_file() else {}
    return content
