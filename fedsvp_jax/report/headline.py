"""The sentences in front of a run: which ε, against whom, and what the model is worth.

Both are made from summary.json alone.
"""

from collections.abc import Mapping
from typing import Any

from fedsvp_jax.report import labels, read

_OF_RUN = ("rdp", "pld")  # accountings of what was spent, at one δ
_NOMINAL = "nominal, because "


def privacy(summary: Mapping[str, Any]) -> str:
    """What changes by at most which ε at which δ, against whom, unless what.

    About the strongest adversary against whom a finite ε is claimed; those against whom
    nothing is claimed are named.

    Args:
      summary: summary.json of a run that has ended.
    """
    rows = [row for row in summary.get("guarantees") or () if isinstance(row, dict)]
    finite = [
        row
        for row in rows
        if row.get("method") in _OF_RUN and read.number(row.get("epsilon")) is not None
    ]
    if not finite:
        return f"This run hides nothing (mechanism {summary.get('mechanism')})."
    who = str(finite[0].get("adversary"))
    row = min(
        (one for one in finite if one.get("adversary") == who),
        key=lambda one: float(one["epsilon"]),
    )
    assumptions = str(row.get("assumptions") or "").split("; ")
    why = [text for text in assumptions if text.startswith(_NOMINAL)]
    if row.get("proved"):
        status = f"proved, unless one of the {len(assumptions)} assumptions fails"
    else:
        status = why[0] if why else "nominal, not proved"
    sentence = (
        f"Whether one does this: {row['relation']}, changes what is seen by at most "
        f"ε = {labels.significant(float(row['epsilon']))} at δ = "
        f"{labels.significant(float(row['delta']), 3)}, against: {who} ({status})."
    )
    bare = [str(one["adversary"]) for one in rows if one.get("method") == "none"]
    if bare:
        sentence += f" Against the {', '.join(dict.fromkeys(bare))}: nothing is hidden."
    return sentence


def quality(summary: Mapping[str, Any], fedavg: Mapping[str, Any] | None = None) -> str:
    """Accuracy beside that of guessing, and of FedAvg where it is known; "" if none.

    Args:
      summary: summary.json.
      fedavg: that of FedAvg on the same clients.
    """
    scores = summary.get("test_scores")
    if not isinstance(scores, dict):
        return ""
    guess = f"guessing the most frequent class reaches {scores['guessing']:.3f}"
    text = f"Accuracy {_pair(scores)} on {sum(scores['counts'].values())} test rows"
    other = (fedavg or {}).get("test_scores")
    if isinstance(other, dict):
        text += f"; FedAvg, which hides nothing, {_pair(other)}"
    if scores["better_than_guessing"]:
        return f"{text}; {guess}."
    if scores["useful"]:
        return f"{text}. It ranks, but its classes are no better than a guess: {guess}."
    return f"{text}. Useless: {guess}."


def _pair(scores: Mapping[str, Any]) -> str:
    area = "" if scores.get("auc") is None else f" (AUC {scores['auc']:.3f})"
    return f"{scores['accuracy']:.3f}{area}"
