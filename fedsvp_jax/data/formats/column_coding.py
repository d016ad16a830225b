"""A column of a table as features of a model, and as categories of an attribute."""

from typing import NamedTuple

import numpy as np

from fedsvp_jax.data.dataset import Column
from fedsvp_jax.settings import MAX_ATTRIBUTES

_MOST_TEXTS = 200  # of a column of features


class Coding(NamedTuple):
    """How a column becomes features: by its bounds, or one for each of its texts."""

    low: float = 0.0
    high: float = 0.0
    texts: tuple[str, ...] = ()


def as_numbers(values: np.ndarray, what: str) -> np.ndarray | None:
    """(rows,) float64; None for a column of texts.

    Raises:
      ValueError: a number is missing or not finite; `what` names the column.
    """
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
    else:
        text = np.char.strip(values.astype(str))
        there = text != ""
        try:
            read = text[there].astype(np.float64)
        except ValueError:
            return None
        numbers = np.full(len(text), np.nan)
        numbers[there] = read
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ValueError(
            f"{what} has no finite number in row {row} (the first is 0); fill it in, "
            "or leave the column out"
        )
    return numbers


def coding(
    values: np.ndarray,
    is_train: np.ndarray,
    bounds: tuple[float, float] | None,
    what: str,
) -> Coding:
    """How a column becomes features.

    Args:
      values: (rows,) of any type.
      is_train: (rows,) bool: whose least and largest number are the bounds.
      bounds: in their place, or None.
      what: the column, in messages.

    Raises:
      ValueError: it holds arrays, a number is missing, or there are too many texts.
    """
    if values.dtype == object and np.ndim(values[0]) > 0:
        raise ValueError(f"{what} holds arrays; name it as image, or leave it out")
    numbers = as_numbers(values, what)
    if numbers is None:
        return Coding(
            texts=categories(values.astype(str), _MOST_TEXTS, what).categories
        )
    if bounds is not None:
        return Coding(*bounds)
    known = numbers[is_train]
    return Coding(known.min(initial=np.inf), known.max(initial=-np.inf))


def coded(values: np.ndarray, coding: Coding, what: str) -> np.ndarray:
    """A column as (rows, k) float64 features.

    Raises:
      ValueError: a text is unknown, or where numbers are wanted.
    """
    if coding.texts:
        places = {text: place for place, text in enumerate(coding.texts)}
        texts = values.astype(str).tolist()
        for row, text in enumerate(texts):
            if text not in places:
                raise ValueError(
                    f"{what} holds {text!r} in row {row} (the first is 0), which the "
                    "table of the training does not have"
                )
        return np.eye(len(places))[[places[text] for text in texts]]
    numbers = as_numbers(values, what)
    if numbers is None:
        raise ValueError(f"{what} holds texts; in the training it held numbers")
    low, high = coding.low, coding.high
    if not high > low:
        return np.zeros((len(numbers), 1))
    return (2 * (np.clip(numbers, low, high) - low) / (high - low) - 1)[:, None]


def column(values: np.ndarray, coding: Coding, what: str) -> Column | None:
    """A column as categories of an attribute; None: too many, or fractions."""
    if coding.texts:
        few = len(coding.texts) <= MAX_ATTRIBUTES
        return categories(values.astype(str), MAX_ATTRIBUTES, what) if few else None
    numbers = as_numbers(values, what)
    assert numbers is not None
    whole = np.all(np.rint(numbers) == numbers)
    if not whole or len(np.unique(numbers)) > MAX_ATTRIBUTES:
        return None
    return categories(numbers.astype(np.int64), MAX_ATTRIBUTES, what)


def categories(values: np.ndarray, most: int, what: str) -> Column:
    """The different values in order, and which of them each row has.

    Raises:
      ValueError: there are more than `most`.
    """
    known, codes = np.unique(values, return_inverse=True)
    if len(known) > most:
        raise ValueError(
            f"{what} holds {len(known)} different texts, more than {most}; leave it "
            "out, or merge the rare ones"
        )
    return Column(codes.astype(np.int32), tuple(map(str, known)))
