"""Writes docs/results/one_attribute.md from its rows, by the registered rules."""

import pathlib
import statistics
from collections.abc import Sequence

from fedsvp_jax.report.text_table import markdown

from .. import docs_blocks, kept_rows, provenance
from ..decisive.verdicts import Effect, effect, verdicts
from .registered import ARMS, CLIENTS, LEAST_ROOM, SEEDS, WORTH

FILE = pathlib.Path("results/one_attribute/mnist.jsonl")
Rows = Sequence[kept_rows.Row]


def _by_seed(rows: Rows, arm: str, clients: int, number: str) -> list[float]:
    """An arm's number in percent, in the order of the seeds."""
    chosen = sorted(
        (row for row in rows if (row["arm"], row["clients"]) == (arm, clients)),
        key=lambda row: row["seed"],
    )
    return [100 * row[number] for row in chosen]


def complete(rows: Rows) -> bool:
    """Whether every registered row is there, once."""
    cells = [(row["arm"], row["clients"], row["seed"]) for row in rows]
    asked = {(a, c, s) for a in ARMS for c in CLIENTS for s in SEEDS}
    return len(cells) == len(asked) and set(cells) == asked


def differences(
    rows: Rows, clients: int, number: str, arms: Sequence[str] = ARMS[:2]
) -> list[float]:
    """The first arm's number minus the second's, in points, seed by seed."""
    one, other = (_by_seed(rows, arm, clients, number) for arm in arms)
    return [a - b for a, b in zip(one, other, strict=True)]


def answer(rows: Rows) -> str:
    """The verdict per size of federation, once all rows are there."""
    if not complete(rows):
        return "No verdict before all rows are there."
    found = [
        effect(differences(rows, one, "final5_accuracy"), WORTH) for one in CLIENTS
    ]
    lines = []
    for clients, gain, word in zip(CLIENTS, found, verdicts(found), strict=True):
        room = statistics.fmean(
            differences(rows, clients, "final5_accuracy", ("FedAvg", "left out"))
        )
        private = differences(rows, clients, "final5_private_accuracy")
        said = word if room >= LEAST_ROOM else "void"
        lines.append(
            {
                "clients": str(clients),
                "Δ, points of accuracy": _interval(gain),
                f"worth having (above 0, and {WORTH} not ruled out)": f"**{said}**",
                "the same on the private class": _interval(effect(private, WORTH)),
                f"FedAvg above left out (gate {LEAST_ROOM:g})": f"{room:.1f}",
            }
        )
    return markdown(lines)


def _interval(one: Effect) -> str:
    return f"{one.mean:+.2f} ({one.low:+.2f} to {one.high:+.2f})"


def accuracies(rows: Rows) -> str:
    """Means and ranges of every arm, once all rows are there."""
    if not complete(rows):
        return "Not shown before all rows are there."
    lines = []
    for clients in CLIENTS:
        for arm in ARMS:
            first = next(
                row for row in rows if (row["arm"], row["clients"]) == (arm, clients)
            )
            epsilon = first["epsilon"]
            private = _by_seed(rows, arm, clients, "final5_private_accuracy")
            lines.append(
                {
                    "clients": str(clients),
                    "arm": arm,
                    "ε (PLD), server": "–" if epsilon is None else f"{epsilon:.2f}",
                    "status": first["status"] or "–",
                    "accuracy, %": docs_blocks.mean_and_range(
                        [
                            one / 100
                            for one in _by_seed(rows, arm, clients, "final5_accuracy")
                        ]
                    ),
                    "on the private class, %": f"{statistics.fmean(private):.1f}",
                }
            )
    return markdown(lines)


def state(rows: Rows) -> str:
    """The commits of the rows, with dates, and the data."""
    if not rows:
        return "No rows yet."
    commits = sorted({row["provenance"]["commit"] for row in rows})
    return (
        f"Rows: {len(rows)} of {len(ARMS) * len(CLIENTS) * len(SEEDS)}, by "
        f"{', '.join(f'`{one}`' for one in commits)}.\n\n"
        + provenance.data_table(list(rows))
    )


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes the page's blocks from the kept rows."""
    rows = kept_rows.read(docs_dir / FILE)
    return docs_blocks.rewrite(
        docs_dir / "results" / "one_attribute.md",
        {
            "state": lambda: state(rows),
            "answer": lambda: answer(rows),
            "accuracies": lambda: accuracies(rows),
        },
    )
