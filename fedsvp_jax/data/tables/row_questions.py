"""What to ask whoever has a table's rows: codes for a missing cell, units, other codes.

A draft asks it of its columns, and a training, a site or a prediction of those that a
given schema declares. Nothing that is trained or sent follows from the answers here.
"""

import collections
import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from . import cells, dependences, encoding, files, literals
from .cells import Cells, Columns
from .schema import Schema

_MIXED = (
    "numbers or letters beside words: codes of several sites? write them alike, and "
    "marks of missing cells blank"
)
_FREQUENT = 5  # cells, at least, of such a mark amid other numbers,
_OFTENER = 4  # which are so many times less frequent
_FAR = 0.2  # of the median: 0 is far below numbers of which the least is above
STATE = "state it in missing, or leave it blank"
_FEWEST = 3  # clients, of which one may have two codes the other way round
_MOST_CODES = 10  # of numbers from 0 on, among which 0 is one more
_ABBREVIATED = re.compile(literals.WORDS["abbreviated"])
FEW = 20  # rows of which nothing is inferred


def questions(
    schema: Schema, columns: Columns, client: str | None, is_open: bool = False
) -> Iterator[tuple[str, str]]:
    """What to ask of the cells of a table, and its schema does not answer, by column.

    A large table is sampled. Of numbers beyond the bounds the encoder asks, and they
    may be of another unit; a stated lower bound is no mark.

    Args:
      schema: a draft, or a given one.
      columns: (rows,) cells, of which it may lack some.
      client: the column that says whose each row is, if any.
      is_open: whether nobody stated how numbers are written.
    """
    rows = len(next(iter(columns.values())))
    order = np.random.default_rng(0).permutation(rows)
    part = pa.array(order[: dependences.CELLS // 8 // len(columns)])
    sample = Columns((name, column.take(part)) for name, column in columns.items())
    names, clients = cells.of_clients(sample, client)
    if client:
        yield client, spellings(cells.of_clients(columns, client)[0])
    notation = encoding.notation_of(schema, sample)
    for name, kind in schema.features.items():
        if name not in sample or not (kind.from_data or rows > FEW):
            continue
        column, marks = sample[name], list[str]()
        is_number, is_day = kind.type == "number", kind.type == "date"
        fits = ~cells.is_missing(column)
        if is_number or is_day:
            numbers, missing = encoding.marked(column, kind, notation)
            low, high = kind.bounds if is_number else (-np.inf, np.inf)
            fits = ~missing & (low <= numbers) & (numbers <= high)
            codes = [*filter(literals.is_mark, np.unique(numbers[~fits]))]
            positive = ~missing & (numbers > 0) & ~np.isin(numbers, codes)
            compared = numbers[positive], clients[positive]
            numbers = numbers[fits]
        if not fits.any():
            continue
        column = column.filter(pa.array(fits))
        is_pair = cells.num_distinct(column) == 2
        if is_day:
            ends = numbers.min(), numbers.max()
            marks = [
                day
                for day in literals.WORDS["placeholders"]
                if literals.days(day) in ends
            ]
        if is_number:
            marks = [
                f"{mark:.15g}"
                for mark in missing_codes(numbers)
                if kind.from_data or mark > low
            ]
            if not is_pair:
                yield name, _unit_question(*compared, names)
            # Under a given schema 8.130 may be 8130 where its bounds hold that.
            if is_open or (high > 999 and not (kind.from_data or schema.thousands)):
                yield name, literals.question(cells.distinct(column)[0], "forms")
        if marks:
            yield name, f"{', '.join(marks)}: a missing {kind.type}? {STATE}"
        if kind.type == "category":
            yield name, spellings(cells.distinct(column)[0])
        if kind.type == "category" or (is_number and is_pair):
            question = code_question(column, clients[fits], names)
            if kind.from_data or question != _MIXED:
                yield name, question


def spellings(names: Sequence[str]) -> str:
    """What to ask of texts of which one is misread, or some differ in capitals or
    blanks alone; "" where none do.
    """
    plain = {name: "".join(name.casefold().split()) for name in names}
    counts = collections.Counter(plain.values())
    alike = [files.quoted(name) for name, key in plain.items() if counts[key] > 1]
    return literals.question(["\n".join(names)], "misread") or (
        f"{files.shortened(alike)} differ in capitals or blanks alone: write them one "
        "way" * bool(alike)
    )


def missing_codes(numbers: np.ndarray) -> list[float]:
    """Numbers such as -9, 0, 99 and 999, which may mean a missing one.

    At an end they occur more than once, and apart: negative ones if no other number is
    negative, 0 and 99 by a gap. Amid others, 99 or 9.9 is far more frequent than all
    numbers above half of it that are no such marks.
    """
    values, counts = np.unique(numbers, return_counts=True)
    low, high = int((values < 0).sum()), len(values)
    if not low and values[0] == 0 and high > _MOST_CODES:
        low = int(values[1] > _FAR * np.median(values) and _ends_apart(-values[::-1]))
    elif values[-1] <= values[low - 1] + 2 or not all(
        map(literals.is_mark, values[:low])
    ):
        low = 0
    for at in itertools.takewhile(
        lambda at: literals.is_mark(values[at]), range(high)[::-1]
    ):
        if counts[at:].sum() > 1 and at and _ends_apart(values[: at + 1]):
            high = at
    low *= counts[:low].sum() > 1
    frequent = np.flatnonzero((counts >= _FREQUENT) & (values > 9))
    marks = [at for at in frequent if literals.is_mark(values[at])]
    times = counts.copy()
    times[marks] = 1
    amid = [
        values[at]
        for at in marks
        if at < high and counts[at] > _OFTENER * times[values > values[at] / 2].max()
    ]
    return [*values[:low], *amid, *values[high:]]


def _ends_apart(values: np.ndarray) -> bool:
    """Whether the gap before the last is more than twice those of its side.

    So is one of a tenth of the last, if this is above 10: 99 above 80.
    """
    near, gap = np.diff(values[(len(values) - 1) // 3 : -1]), values[-1] - values[-2]
    return bool(gap > 2 * near.max(initial=1) or gap > values[-1] / 10 > 1)


def _unit_question(
    numbers: np.ndarray, clients: np.ndarray, names: Sequence[str]
) -> str:
    """What to ask of a column in two units; "" where it seems to be in one.

    The largest gap between medians of clients, or between numbers, divides the rows.
    Units explain it where both parts, on a logarithmic scale, are about equally wide,
    narrow beside the gap, and far apart.

    Args:
      numbers: (rows,) positive ones.
      clients: (rows,) which client's each row is.
      names: of the clients.
    """
    logs = np.log(numbers)
    in_order = logs[np.lexsort((logs, clients))]
    counts = np.bincount(clients)
    medians = in_order[np.cumsum(counts) - counts // 2 - 1]
    for levels, (steps, fewest, least, most, apart, unequal, question) in zip(
        (medians[clients], *[logs] * 4), literals.WORDS["units"], strict=True
    ):
        ends = np.sort(levels)[_FREQUENT - 1 : 1 - _FREQUENT]
        if len(np.unique(ends)) >= fewest:
            gaps = np.diff(ends)
            is_rare = levels > ends[gaps.argmax()]
            for _ in range(steps):
                middle = (levels[is_rare].mean() + levels[~is_rare].mean()) / 2
                is_rare = levels > middle
            is_rare ^= is_rare.mean() > 0.5
            parts = [np.quantile(logs[p], [0.1, 0.5, 0.9]) for p in (is_rare, ~is_rare)]
            narrow, wide = sorted(map(np.ptp, parts))
            factor = abs(parts[0][1] - parts[1][1]) if steps else gaps.max()
            if least < factor < most and wide < min(unequal * narrow, apart * factor):
                where = files.shortened([names[n] for n in np.unique(clients[is_rare])])
                return question.format(*np.exp(parts)[:, 1], where)
    return ""


def code_question(column: Cells, clients: np.ndarray, names: Sequence[str]) -> str:
    """What to ask of categories where some clients write none that the others write,
    of two whose shares at a client alone are those of the others, the other way round,
    or of words beside numbers, or beside their first letters.

    Args:
      column: (rows,) cells, none of which is missing.
      clients: (rows,) which client's each row is.
      names: of the clients.
    """
    texts, codes = cells.distinct(column)
    counts = np.zeros((len(names), len(texts)))
    np.add.at(counts, (clients, codes), 1)
    writes = counts > 0
    large = np.flatnonzero(counts.sum(1) >= FEW)
    if len(texts) == 2 and len(large) >= _FEWEST:
        shares = counts[large, 0] / counts[large].sum(1)
        usual = np.median(shares)
        far = abs(shares - usual).argmax()
        share = float(shares[far])
        shares[far] = 1 - share
        # Shares near 1/2 are alike, and 0 and 1 are no codes but a client's property.
        if abs(shares - usual).max() < abs(usual - 0.5) / 2 - 0.12 and share % 1:
            return (
                f"{files.quoted(texts[0])} in {100 * share:.2g} % of the cells of "
                f"client {names[large[far]]}, {100 * usual:.2g} % elsewhere, the other "
                "way round: are codes swapped?"
            )
    is_usual = writes[writes[:, np.bincount(codes).argmax()]].any(0)
    is_rare = writes.any(1) & ~writes[:, is_usual].any(1)
    of_kinds = writes[is_rare].any(0), writes[~is_rare].any(0)
    is_one_kind = writes[is_rare].all(0).any() and not np.logical_and(*of_kinds).any()
    if not is_one_kind or np.sum(of_kinds, 1).min() < 2:
        in_order = "\n".join(sorted(map(str.casefold, texts)))
        return _MIXED * bool(_ABBREVIATED.search(in_order))
    there, elsewhere = (
        files.shortened([*map(files.quoted, np.array(texts)[of_kind])])
        for of_kind in of_kinds
    )
    return (
        f"{there} at client {files.shortened(np.array(names)[is_rare].tolist())}, "
        f"{elsewhere} elsewhere: other codes? write them alike"
    )
