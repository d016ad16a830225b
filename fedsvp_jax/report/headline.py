"""The sentences in front of a run: which ε, against whom, and what the model is worth.

They are made from summary.json and config.json alone.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsvp_jax.report import labels, read

_OF_RUN = ("rdp", "pld")  # accountings of what was spent, at one δ
DOING = (
    ("leave", "Leaving"),
    ("replace", "Replacing"),
    ("add or remove", "Adding or removing"),
)
_NOMINAL = "nominal, because "
_NOTHING = "nothing is hidden"
REFERENCE = "fedavg"  # the folder of FedAvg on the same clients, in a run's folder


def privacy(summary: Mapping[str, Any]) -> str:
    """The claim of the run: neighbours, adversary, ε, δ, and whether it is proved.

    It is about one copy of a record. More copies and stronger adversaries follow with
    their own ε, or with none.
    """
    smallest: dict[
        tuple[str, bool], dict[str, Any]
    ] = {}  # by adversary, of copies or not
    adversaries = []  # from the strongest
    for row in read.guarantees(summary):
        if row.get("method") in (*_OF_RUN, "none"):
            adversaries.append(str(row.get("adversary")))
            key = adversaries[-1], (row.get("copies") or 1) > 1
            if _epsilon(row) < _epsilon(smallest.get(key)):
                smallest[key] = row
    main = str(summary.get("adversary"))
    row = smallest.get((main, False), {})
    if not row:
        return f"This run hides nothing (mechanism {summary.get('mechanism')})."
    sentence = claim(row, _status(row))
    if copied := smallest.get((main, True)):
        much = labels.significant(_epsilon(copied))
        sentence += f" With a copy at each of {copied['copies']} clients: ε = {much}."
    for adversary in dict.fromkeys(adversaries[: adversaries.index(main)]):
        bound = smallest.get((adversary, False))
        if _epsilon(bound) <= _epsilon(row):
            continue
        much = f"ε = {labels.significant(_epsilon(bound))}"
        sentence += f" Against the {adversary}: {much if bound else _NOTHING}."
    return sentence


def _epsilon(row: Mapping[str, Any] | None) -> float:
    """ε of a guarantee; infinity where there is none."""
    epsilon = read.number((row or {}).get("epsilon"))
    return math.inf if epsilon is None else epsilon


def _status(row: Mapping[str, Any]) -> str:
    """`proved, unless …`, or `nominal, because …`."""
    assumptions = str(row.get("assumptions") or "").split("; ")
    if row.get("proved"):
        return f"proved, unless one of its {len(assumptions)} assumptions fails"
    why = [text for text in assumptions if text.startswith(_NOMINAL)]
    return why[0] if why else "nominal, not proved"


def claim(row: Mapping[str, Any], status: str) -> str:
    """A guarantee as a sentence."""
    neighbours, _, limits = str(row["relation"]).partition("; ")
    comma = "," if "," in neighbours else ""
    verbs = [(verb, doing) for verb, doing in DOING if neighbours.startswith(verb)]
    for verb, doing in verbs or [("", "To ")]:
        neighbours = doing + neighbours.removeprefix(verb)
    sentence = (
        f"{neighbours}{comma} changes the view of the {row['adversary']} by at most "
        f"ε = {labels.significant(float(row['epsilon']))} at δ = "
        f"{labels.significant(float(row['delta']), 3)} ({status})"
    )
    return sentence + (f"; {limits}." if limits else ".")


def quality(summary: Mapping[str, Any], fedavg: Mapping[str, Any] | None = None) -> str:
    """Accuracy beside that of guessing, and of FedAvg where it is known; "" if none."""
    scores = summary.get("test_scores")
    if not isinstance(scores, dict):
        return ""
    text = f"Accuracy {_pair(scores)} on {_rows(scores)} test rows"
    other = (fedavg or {}).get("test_scores")
    if isinstance(other, dict):
        text += f"; FedAvg, which hides nothing, {_pair(other)}"
    word = verdict(scores)
    guess = f"guessing the most frequent class reaches {scores['guessing']:.3f}"
    return f"{text}. {word[0].upper()}{word[1:]}: {guess}."


def verdict(scores: Mapping[str, Any]) -> str:
    """What the model is worth, by its accuracy and AUC beside guessing."""
    if scores["better_than_guessing"]:
        return "better than guessing"
    if scores["accuracy"] > scores["guessing"]:
        text = f"not significantly better than guessing on {_rows(scores)} rows"
    else:
        text = "no better than guessing"
    return f"{text}, though it ranks" if scores["useful"] else f"useless, {text}"


def _rows(scores: Mapping[str, Any]) -> int:
    return sum(scores["counts"].values())


def _pair(scores: Mapping[str, Any]) -> str:
    area = "" if scores.get("auc") is None else f" (AUC {scores['auc']:.3f})"
    return f"{scores['accuracy']:.3f}{area}"


def details(summary: Mapping[str, Any]) -> str:
    """The other scores of a table's test rows, in a line; "" where there are none."""
    scores = summary.get("test_scores")
    if not isinstance(scores, dict):
        return ""
    counts = ", ".join(f"{name} {n}" for name, n in scores["counts"].items())
    return (
        f"Balanced accuracy {scores['balanced_accuracy']:.3f}, log loss "
        f"{scores['log_loss']:.3f}; test rows by class: {counts}."
    )


def published(summary: Mapping[str, Any]) -> str:
    """The accuracy that may be published, and what it claims; "" if there is none."""
    scores = summary.get("published_scores")
    if not isinstance(scores, dict):
        return ""
    low, high = scores["interval"]
    return (
        f"To be published: accuracy {scores['accuracy']:.3f} (95 %: {low:.3f} to "
        f"{high:.3f}) on {scores['rows']} test rows, with noise of its own. "
        f"{claim(scores, _status(scores))}"
    )


def unprotected(config: Mapping[str, Any]) -> str:
    """The number of rows that no ε covers, with advice; "" if there is none.

    Args:
      config: config.json of a run or a sweep.
    """
    if config.get("public_test") is not False:
        return ""
    centre = config["influence_filter"] != "none" and config["warmup_examples"]
    rows = {
        "for the test": config["num_test_examples"],
        "for validation": config["validation_examples"],
        "of the centre (--warmup_examples)": int(centre),
    }
    total = config["num_train_examples"] + sum(rows.values()) - int(centre)
    advice = (
        "To publish scores: --test_data, or --publish_scores where ε hides one row or "
        "person"
    )
    if config["publish_scores"]:
        del rows["for the test"]
        advice = "On test rows, publish the score with noise alone"
    number = sum(rows.values())
    if not number:
        return f"{advice}."
    kinds = ", ".join(f"{count} {name}" for name, count in rows.items() if count)
    sentence = (
        f"No ε covers {number} of the {total} rows ({100 * number / total:.3g} %): "
        f"{kinds}. Keep what is scored on them to yourself"
    )
    reasons = {
        "it starts from the centre's": centre,
        "their scores may choose its cell": config.get("mechanisms"),
    }
    if why := " and ".join(reason for reason, holds in reasons.items() if holds):
        sentence += f"; the model tells of them too, since {why}"
    return f"{sentence}. {advice}."


def sentences(folder: Path, summary: Mapping[str, Any]) -> list[str]:
    """All sentences of a run's folder."""
    config = _content(folder / "config.json")
    fedavg = _content(folder / REFERENCE / "summary.json")
    written = [privacy(summary), published(summary), unprotected(config)]
    written += [quality(summary, fedavg), details(summary)]
    return [sentence for sentence in written if sentence]


def _content(path: Path) -> dict[str, Any]:
    """The object in a JSON file; {} where there is none."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content
