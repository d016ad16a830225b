"""Texts of numbers and accounting methods, for pages and figures."""

from collections.abc import Mapping
from typing import Any

VALIDATION = "validation_accuracy"  # `best_by` of a best round that it chose

_METHODS = {
    "basic": "basic (as published)",
    "rdp": "Rényi DP",
    "pld": "privacy loss distribution",
}


def method_label(name: str) -> str:
    """`rdp` -> `Rényi DP`; an unknown name is shown as it is."""
    return _METHODS.get(name, name)


def data_name(config: Mapping[str, Any]) -> str:
    """The name of config.json's data: of the user's own file, its file name."""
    name, place = str(config.get("dataset")), config.get("data_dir")
    return str(place).rsplit("/", 1)[-1] if name in ("csv", "npz") and place else name


def significant(value: float | None, digits: int = 4) -> str:
    """A number with this many significant digits; a dash for None."""
    return "–" if value is None else f"{value:.{digits}g}"


def percent(value: float | None, std: float | None = None, *, digits: int = 2) -> str:
    """A share as a percentage, with ± its std where there is one."""
    if value is None:
        return "–"
    spread = "" if std is None else f" ± {100 * std:.{digits}f}"
    return f"{100 * value:.{digits}f}{spread}"


def picked(summary: Mapping[str, Any]) -> str:
    """A phrase for the data that picked the best round of a run."""
    if str(summary.get("best_by")).startswith("validation"):
        return f"in round {summary['best_round']}, picked on the validation set"
    return "picked on the test set"
