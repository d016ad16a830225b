"""The file of --client_epsilons: which client is promised which ε."""

import csv
import io
import json
import math
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_RANGE = re.compile(r"(\d+)-(\d+)")
_MOST_BYTES = 10_000_000
_COLUMNS = ["client", "epsilon"]


def read_client_epsilons(
    path: str | Path, clients: Sequence[str], rest: float
) -> np.ndarray:
    """(M,) the ε that each client is promised.

    Args:
      path: a TOML, JSON or CSV file, as its name ends.
      clients: (M,) what the file calls them.
      rest: ε of the clients that the file does not name.

    Raises:
      ValueError: in one sentence: the file cannot be read, or it names a client that
        there is not, or twice, or an ε that is no positive number.
    """
    file = Path(path).expanduser()
    number_of = {name: number for number, name in enumerate(clients)}
    found = np.full(len(clients), rest, np.float64)
    named: set[int] = set()
    for entry, value in _entries(file):
        epsilon = _number(value)
        if not 0 < epsilon < math.inf:
            raise ValueError(
                f"client_epsilons: {file} must promise client {entry} an ε > 0, got "
                f"{value!r}"
            )
        for name in _names(entry, number_of):
            if name not in number_of:
                raise ValueError(
                    f"client_epsilons: {file} names client {name}, and the clients are "
                    f"{_listed(clients)}"
                )
            if number_of[name] in named:
                raise ValueError(
                    f"client_epsilons: {file} names client {name} twice; a client has "
                    "one ε"
                )
            named.add(number_of[name])
            found[number_of[name]] = epsilon
    return found


def _names(entry: str, known: dict[str, int]) -> Iterable[str]:
    """The clients of an entry: `3`, `north`, or those of a range `0-9`."""
    ends = _RANGE.fullmatch(entry)
    if entry in known or ends is None:
        return [entry]
    first, last = map(int, ends.groups())
    last = min(last, first + len(known))  # one beyond the last client is enough
    return [str(number) for number in range(first, last + 1)] or [entry]


def _entries(file: Path) -> list[tuple[str, Any]]:
    """(client, ε) as they are written.

    Raises:
      ValueError: the file is missing, too large, or not of its format.
    """
    kind = file.suffix.lower()
    if kind not in (".toml", ".json", ".csv"):
        raise ValueError(
            f"client_epsilons must be a .toml, .json or .csv file, got {file}"
        )
    try:
        with file.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES} bytes")
        text = content.decode()
        if kind == ".toml":
            pairs = list(tomllib.loads(text).items())
        elif kind == ".json":
            pairs = json.loads(text, object_pairs_hook=list)
        else:
            pairs = _rows(text)
        if not isinstance(pairs, list) or not all(
            isinstance(pair, tuple) for pair in pairs
        ):
            raise ValueError("it is no object with a client's ε by its name")
    except OSError as error:
        why = error.strerror or error
        raise ValueError(f"client_epsilons: {file} cannot be read: {why}") from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise ValueError(
            f"client_epsilons: {file} cannot be read as {kind[1:].upper()}: {error}"
        ) from error
    return [(str(name).strip(), value) for name, value in pairs]


def _rows(text: str) -> list[tuple[str, str]]:
    rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    if not rows or [name.strip() for name in rows[0]] != _COLUMNS:
        raise ValueError("its first line must be client,epsilon")
    for row in rows[1:]:
        if len(row) != len(_COLUMNS):
            raise ValueError(f"client {row[0]} needs one ε, got {','.join(row[1:])!r}")
    return [(name, epsilon) for name, epsilon in rows[1:]]


def _number(value: Any) -> float:
    """The value as a number; NaN where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _listed(clients: Sequence[str]) -> str:
    """`0 to 9`, or the first names."""
    if list(clients) == list(map(str, range(len(clients)))):
        return f"0 to {len(clients) - 1}"
    more = f" and {len(clients) - 5} more" if len(clients) > 5 else ""
    return ", ".join(clients[:5]) + more
