"""What the user declares of a file without a look at its records.

Bounds, categories and the number of classes that are read off the records change with
them: one record more, and the features of all others are other ones. A reader lists
what it had to take from the records (`Dataset.from_records`), and every claim of such
data is nominal. What is declared is the same for all neighbours. Numbers beyond their
bounds are clamped; a category or class that was not declared is refused, unless `*` is
declared, which stands for all others.
"""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from fedsvp_jax.data.dataset import Column
from fedsvp_jax.data.formats import files
from fedsvp_jax.settings import Settings, setting

MOST_CLASSES = 1000
_WHOLE = re.compile(r"-?[0-9]{1,400}")
OTHERS = "*"  # the category of whatever has none of its own
_OWN = ("npz", "mnist", "fashion_mnist", "emnist")


@dataclasses.dataclass(frozen=True)
class DeclaredSettings(Settings):
    """Declared: public facts about a file of one's own."""

    column_bounds: str | None = setting(
        None,
        "Public bounds of columns of numbers, as age=17:90,hours=1:99. Default: the "
        "least and largest number of the training rows; every claim is then nominal.",
        needs=("dataset", ("csv",)),
    )
    column_categories: str | None = setting(
        None,
        "Public categories of columns, and of the label of a csv file, as "
        "town=Bern|Basel|*,ill=no|yes; * takes all others. Default: those that occur; "
        "every claim is then nominal.",
        needs=("dataset", ("csv", "npz")),
    )
    classes: int | None = setting(
        None,
        "Public number of classes. Default: the largest label + 1; every claim is then "
        "nominal.",
        at_least=2,
        needs=("dataset", _OWN),
    )


def bounds(text: str | None) -> dict[str, tuple[float, float]]:
    """`age=17:90,hours=1:99` by name.

    Raises:
      ValueError: it is something else.
    """
    found = {}
    for item in filter(None, (text or "").split(",")):
        name, _, ends = item.rpartition("=")
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            low = high = np.nan
        if not (name and np.isfinite([low, high]).all() and low < high):
            raise ValueError(
                f"column_bounds must be NAME=LOW:HIGH with commas between them, got "
                f"{item!r}"
            )
        found[name.strip()] = (low, high)
    return found


def categories(text: str | None) -> dict[str, tuple[str, ...]]:
    """`town=Bern|Basel|*,ill=no|yes` by name.

    Raises:
      ValueError: it is something else.
    """
    found = {}
    for item in filter(None, (text or "").split(",")):
        name, _, listed = item.partition("=")
        names = tuple(one.strip() for one in listed.split("|"))
        if not (name and all(names)) or len(names) != len(set(names)) or len(names) < 2:
            raise ValueError(
                "column_categories must be NAME=ONE|OTHER with commas between them, "
                f"each category once, got {item!r}"
            )
        found[name.strip()] = names
    return found


def coded(values: np.ndarray, names: Sequence[str], what: str) -> np.ndarray:
    """(rows,) int32: which of the categories each value is.

    Args:
      values: (rows,) of any type.
      names: the categories; `OTHERS` among them takes what is none of them.
      what: the column, in messages.

    Raises:
      ValueError: a value is none of them.
    """
    known, rows = np.unique(values, return_inverse=True)
    places = {name: place for place, name in enumerate(names)}
    others = places.get(OTHERS, -1)
    codes = [places.get(str(text), others) for text in known.tolist()]
    of_row = np.asarray(codes, np.int32)[rows]
    if (of_row < 0).any():
        row = int(np.argmin(of_row))
        raise ValueError(
            f"{what} holds {files.shown(values[row])} in row {row + 1} (the first is "
            "1), none of its categories; declare it in --column_categories, or * for "
            "all others"
        )
    return of_row


def column(values: np.ndarray, names: Sequence[str] | None, what: str) -> Column:
    """A column by its declared categories; None: those that occur, in order.

    Whole numbers are in the order of numbers, whatever else in that of letters.

    Raises:
      ValueError: a value is no declared category, or holds a control character.
    """
    if names is not None:
        return Column(coded(values, names, what), tuple(names))
    known, codes = np.unique(values, return_inverse=True)
    found = [str(text) for text in known.tolist()]
    files.check_printable(found, what)
    order = list(range(len(found)))
    if all(map(_WHOLE.fullmatch, found)):
        order = sorted(order, key=lambda place: (int(found[place]), found[place]))
    rank = np.argsort(np.asarray(order, np.int32)).astype(np.int32)
    return Column(rank[codes], tuple(found[place] for place in order), public=False)
