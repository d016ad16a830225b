"""Writes the tables of what a run discloses, which the library declares.

python -m experiments.disclosure_tables
"""

import pathlib
import textwrap

from fedsvp_jax.report.disclosure import EVENTS, EXPERIMENTER, PUBLIC
from fedsvp_jax.report.text_table import markdown
from fedsvp_jax.run.early_stopping import UNRELEASED

from . import docs_blocks


def events_table() -> str:
    """What leaves a client, and how the ledger counts it."""
    return markdown(
        [
            {
                "what leaves a client": event.name,
                "its noise": event.mechanism,
                "change that it hides": event.relation,
                "who sees it": event.seen_by,
                "counted as": event.counted,
            }
            for event in EVENTS
        ]
    )


def public_list() -> str:
    """What neighbours agree in and an adversary may know."""
    return "\n".join(
        textwrap.fill(one, 100, initial_indent="- ", subsequent_indent="  ")
        for one in PUBLIC
    )


def experimenter_table() -> str:
    """What stays with the experimenter, and why."""
    fields = ", ".join(f"`{name}`" for name in UNRELEASED)
    unreleased = f"Fields of metrics.jsonl that no noise hides: {fields}."
    table = markdown(
        [
            {
                "files": ", ".join(f"`{name}`" for name in kept.files),
                "what they tell": kept.why,
            }
            for kept in EXPERIMENTER
        ]
    )
    return f"{table}\n\n{textwrap.fill(unreleased, 100)}"


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes the blocks of docs/privacy.md and its tables; returns the page."""
    writers = {
        "events": events_table,
        "public": public_list,
        "experimenter": experimenter_table,
    }
    return docs_blocks.rewrite(docs_dir / "privacy.md", writers)


if __name__ == "__main__":
    docs_blocks.run(rewrite, __doc__)
