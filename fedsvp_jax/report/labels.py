"""How numbers and accounting methods appear on pages and in figures."""

_METHODS = {
    "basic": "basic (as published)",
    "rdp": "Rényi DP",
    "pld": "privacy loss distribution",
}


def method_label(name: str) -> str:
    """`rdp` -> `Rényi DP`; an unknown name is shown as it is."""
    return _METHODS.get(name, name)


def significant(value: float | None, digits: int = 4) -> str:
    """A number with this many significant digits; a dash for None."""
    return "–" if value is None else f"{value:.{digits}g}"


def percent(value: float | None, std: float | None = None) -> str:
    """A share as a percentage, with ± its std where there is one."""
    if value is None:
        return "–"
    return f"{100 * value:.2f}" + ("" if std is None else f" ± {100 * std:.2f}")
