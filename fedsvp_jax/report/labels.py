"""How numbers, accounting methods and colours appear on pages and in figures."""

# Okabe and Ito's palette (2008), made for colour-blind readers; black first.
OKABE_ITO = (
    "#000000",
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#8C6D00",  # the palette's yellow, darkened: the original fades on white
)
# Viridis with its palest end darkened: ordered in lightness, so readable in grey.
SEQUENTIAL = ("#440154", "#414487", "#2A788E", "#22A884", "#7AC143", "#D9C31E")

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


def epsilon_color(position: int, count: int) -> str:
    """The colour of value number `position` (from 0) of `count` ordered values of ε."""
    last = len(SEQUENTIAL) - 1
    return SEQUENTIAL[round(last * position / (count - 1)) if count > 1 else 1]
