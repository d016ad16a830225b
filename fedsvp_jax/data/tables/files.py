"""Checks of what was read from files; every error names the path."""

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from fedsvp_jax.core.settings import nearest

from ..dataset import Names, integer_labels

_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")
_NAMED = 10  # clients, columns or cells that a sentence lists
_SHOWN = 8  # faults of which an error tells


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; zipfile and numpy raise errors of some ten types."""
    # np.load leaves a file that it opened itself, and cannot read, open.
    with path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
        return {name: np.asarray(archive[name]) for name in archive.files}


def check_labels(labels: np.ndarray, num_classes: int, path: Path) -> np.ndarray:
    """The labels, checked, as (n,) int32.

    Raises:
      ValueError: a label is outside [0, num_classes).
    """
    low, high = labels.min(initial=0), labels.max(initial=0)
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"{path} holds the label {low if low < 0 else high}; labels must be from "
            f"0 to {num_classes - 1}"
        )
    return labels.astype(np.int32)


def count_classes(
    labels: Sequence[np.ndarray], declared: int | None, path: Path
) -> tuple[int, Names]:
    """The number of classes, and which settings were read from the records for it.

    Args:
      labels: of the training and of the test.
      declared: the number; None for the largest label + 1.
      path: of the labels, in messages.

    Raises:
      ValueError: most of the classes would have no example.
    """
    values = integer_labels(np.concatenate([part.ravel() for part in labels]))
    if declared is not None or values is None or not values.size:
        return declared or 2**31, ()  # `Dataset` refuses what are no labels
    used = np.unique(values)
    number = 1 + int(used[-1])
    if number > 2 * len(used) + 8:
        raise ValueError(
            f"{path}: the label {number - 1} would make {number} classes, of which "
            f"only {len(used)} have an example; number the classes from 0 without "
            f"gaps, or declare --classes={number}"
        )
    return number, ("the number of classes",)


def quoted(text: object) -> str:
    """A text of a file as an error message quotes it."""
    quote = str(text)
    return repr(quote if len(quote) <= 40 else f"{quote[:40]}…")


def shortened(names: Sequence[str]) -> str:
    """The first names, and a sign of others."""
    return ", ".join(names[:_NAMED]) + " …" * (len(names) > _NAMED)


def check_printable(texts: Iterable[str], source: str) -> None:
    """Refuses texts with which a file could steer a terminal or turn a line around.

    Raises:
      ValueError: a text holds a control character; `source` says where.
    """
    for text in texts:
        if _CONTROL.search(text):
            raise ValueError(f"{source} holds a control character, in {quoted(text)}")


def check_columns(
    names: Iterable[str | None], columns: Collection[str], source: str
) -> None:
    """Raises ValueError: a name that is stated is no column."""
    for name in filter(None, names):
        if name not in columns:
            raise ValueError(
                f"{source} lacks the column {name}{nearest(name, columns)}; it has "
                f"{', '.join(filter(None, columns))}"
            )


class Unfit(ValueError):
    """What a file holds is wrong, and its format is right."""


def unnamed(places: Sequence[int]) -> str:
    """The fault of columns that line 1 does not name, by their places from 1."""
    return (
        f"line 1: no name stands above column {', '.join(map(str, places))}; name "
        "each, or delete it (a first column that R or pandas wrote for row names may "
        "have none, if all its values differ), or delete line 1, if it is a title: the "
        "first line must name the columns"
    )


@contextlib.contextmanager
def readable(path: Path, expected: str = "") -> Iterator[None]:
    """Around another library's reader, which has errors of its own.

    Raises:
      OSError, ImportError: there is no such file, or no library that reads it.
      ValueError: any other error, in one sentence that ends with `expected`, unless it
        is `Unfit`.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, ImportError) or getattr(error, "filename", None):
            raise
        why = reason(error).replace(str(path), "the file")
        tail = "" if isinstance(error, Unfit) else expected
        raise ValueError(f"{path} cannot be read ({why}){tail}") from error


def reason(error: Exception) -> str:
    """The first line of another library's error message about a file."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def collected(faults: list[str], prefix: str = "") -> Iterator[None]:
    """Adds a ValueError's message to the faults, which `refuse` raises together."""
    try:
        yield
    except ValueError as error:
        faults.append(f"{prefix}{error}")


def refuse(faults: Sequence[str], prefix: str = "") -> None:
    """Raises ValueError: the faults in one line, if there are any."""
    if faults:
        rest = f" (and {len(faults) - _SHOWN} more)" if len(faults) > _SHOWN else ""
        raise ValueError(prefix + "; ".join(faults[:_SHOWN]) + rest)
