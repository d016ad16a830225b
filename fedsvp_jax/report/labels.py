"""Texts of numbers, of ε with what it means, and of a run's data."""

from fedsvp_jax.core.files import Record

from . import read


def data_name(config: Record) -> str:
    """The name of config.json's data: of the user's own file, its file name."""
    name, place = str(config.get("dataset")), config.get("data_dir")
    return str(place).rsplit("/", 1)[-1] if name in ("csv", "npz") and place else name


def significant(value: float | None, digits: int = 4) -> str:
    """A number with this many significant digits; a dash for None."""
    return "–" if value is None else f"{value:.{digits}g}"


def text(value: object) -> str:
    """A value in a table: numbers with four significant digits, a dash for none."""
    if isinstance(value, float):
        return significant(read.number(value))
    return significant(None) if value is None else str(value)


def percent(value: float | None, digits: int = 2) -> str:
    """A share as a percentage; a dash for None."""
    return "–" if value is None else f"{100 * value:.{digits}f}"


def marked(text: str, status: str | None) -> str:
    """`text (nominal)`; the text alone where no status is known."""
    return f"{text} ({status})" if status else text


def delta_text(method: str, row: Record) -> str:
    """`Σδ = 0.573` for basic, `δ = 1e-05` for the others; empty where not recorded.

    Basic composition's ε holds at Σδ, the sum of the δ that the uploads claimed, the
    other methods' at the setting target_delta.

    Args:
      method: of accounting.
      row: with `delta_spent` and `target_delta`, as a line of metrics.jsonl or
        results.jsonl, summary.json and a row of table.csv have them.
    """
    symbol, name = ("Σδ", "delta_spent") if method == "basic" else ("δ", "target_delta")
    value = read.number(row.get(name))
    return "" if value is None else f"{symbol} = {significant(value, 3)}"


def least_spent(row: Record) -> tuple[str, float | None]:
    """The accounting method of the least ε at `target_delta`, and this ε.

    Basic composition's, which holds at Σδ, counts where no other is known.
    """
    epsilons = {
        method: value
        for method, spent in (row.get("epsilon_spent") or {}).items()
        if (value := read.number(spent)) is not None
    }
    return min(
        epsilons.items(),
        key=lambda item: (item[0] == "basic", item[1]),
        default=("", None),
    )
