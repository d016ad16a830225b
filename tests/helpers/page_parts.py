"""Parts of pages, as their templates make them."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedsvp_jax.report import page


def guarantee_table(claims: Sequence[Mapping[str, Any]]) -> str:
    """The table of guarantees and the list of their assumptions."""
    parts = page.templates().get_template("parts.html").make_module({"sections": []})
    return str(parts.guarantees(claims))
