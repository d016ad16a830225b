"""Drafts a schema from the records of a table.

All that a draft takes from the records is marked `from_data`. As a file it is a
proposal that its reader confirms (`fedsvp schema`). Where a run on a table has no
schema, a draft stands in for one, and it is strict then: the encoder refuses whatever
could be meant in two ways.
"""

import collections
import dataclasses
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..dataset import Names, check_one_client
from . import (
    cells,
    csv_file,
    dependences,
    duplicates,
    encoding,
    files,
    literals,
    row_questions,
    table_file,
)
from .cells import Cells, Columns, place
from .literals import Notation
from .row_questions import FEW
from .schema import MOST_CLASSES, MOST_VALUES, OTHERS, Schema, SchemaColumn

_NUMBER, _ID, _PERSON, _DATED, _DAYS, _CODED = map(
    re.compile, literals.WORDS["patterns"].values()
)
REPEAT = (
    "values of column {0} repeat, as ids of persons do: ε protects one row, so a "
    'person with several is protected less; unit = "person" and [person] column = '
    '"{0}" in the schema makes a person the unit'
)
_VISITS = 10  # rows of a person, at most, by which a column is taken for ids
_APART = 100  # the gap between numbers of which no two are the same by chance
_CODE = "^(?:0[0-9]+|[0-9]+[eE][0-9]+)$"  # 00501 and 3E05
_LONG_CODE = 5  # digits that the whole numbers of a column all have, if they are codes
_DIFFERENT = 0.95  # of whole numbers that may be identifiers
_COLLISIONS = 10  # numbers drawn from a range of n²/10 would collide 5 times
_MOST_LABELS = 10  # values of a label that is guessed
_MOST_ODD = 3  # texts among numbers that are proposed as marks of missing cells
_ODD = 200  # of a part p of the cells, beside fewer than 200 p numbers: categories
_BELOW = (
    " if it is beyond a limit (below detection, 90+), a median is a wrong fill: write "
    "<0.1 or ≥90 and state limits = true, or make the column a category"
)
_OF_EXCEL = "; has Excel made a date of a number such as 3.4?"
_OF_DAY = "; 44778 may be the number that a spreadsheet gives a day"
_SKEWED = 0.25  # nine tenths of the numbers lie in this part of their range, and the
_LEFT = 0.4  # median in this one of what the 5 % and 95 % quantiles enclose: log
_LEFT_OUT = SchemaColumn("drop", from_data=True)  # another record might have kept it
Proposal = tuple[SchemaColumn, str]  # with a note for its reader


class Draft(NamedTuple):
    """A schema, and notes on its columns for its reader."""

    schema: Schema
    notes: dict[str, str]  # by "label", "client", "person", … and "columns.NAME"


def proposed(
    table: Any,
    *,
    label: str,
    client: str | None,
    drop: Sequence[str] = (),
    source: str,
    form: csv_file.Form | None = None,
    notation: Notation | None = None,
) -> Draft:
    """The draft that `fedsvp schema` writes; `form` is that of a CSV file.

    Raises:
      ValueError: the label is none, a row names no client, or numbers may be meant in
        two ways; a stated `notation` settles that.
    """
    notes: dict[str, list[str]] = collections.defaultdict(list)
    columns = table_file.columns_of(table, source)
    if "" in columns:
        notes["row names"] = ["the first column, which has no name, is no feature"]
    rest = [name for name in columns if name not in ("", label, client, "split")]
    schema_columns = dict.fromkeys(rest, SchemaColumn("drop"))
    features = {name: columns[name] for name in rest if name not in drop}
    person = next(
        (n for n in features if _PERSON.match(n) and repeats(n, features[n])), None
    )
    if person:
        notes["person"] = [f"{person} repeats; of each one row is kept, check it"]
        del schema_columns[person], features[person]
    if is_open := notation is None:
        notation = written_notation(features, form.divider if form else ",", source)
    faults: list[str] = []
    class_names: Names = ()
    client_names, of_client = cells.of_clients(columns, client)
    if client is not None:
        with files.collected(faults):
            encoding.check_named(
                columns[client], "client", f"{source}: column {client}"
            )
    for name, column in features.items():
        with files.collected(faults):
            kind, note = _draft_column(
                name, column, notation, f"{source}: column {name}"
            )
            schema_columns[name] = kind
            notes[f"columns.{name}"] = [note]
    with files.collected(faults):
        class_names = classes(columns[label], f"{source}: column {label}")
        if len(class_names) == 2 and class_names[0].lower() in literals.WORDS["events"]:
            class_names = class_names[::-1]
        notes["label"] = [
            row_questions.code_question(columns[label], of_client, client_names),
            row_questions.spellings(class_names),
        ] + [
            f"{name}: a class? if not, leave such rows out"
            for name in class_names
            if 2 < len(class_names) <= literals.WORDS["unknown"].get(name.lower(), 0)
        ]
    files.refuse(faults)
    for name, note in (
        *dependences.repetitions(features, schema_columns, notation).items(),
        *dependences.notes(features, columns[label], label).items(),
    ):
        notes[f"columns.{name}"].append(note)
    shares = np.bincount(encoding.coded(columns[label], class_names, source))
    schema = Schema(
        columns=schema_columns,
        label=label,
        classes=class_names,
        classes_from_data=class_names
        + tuple(float(f"{share:.3g}") for share in shares / shares.sum()),
        client=client,
        person=person,
        decimal=notation.decimal,
        thousands=notation.thousands,
        encoding=form.encoding if form else "utf-8",
        test_fraction=None if "split" in columns else 0.2,
    )
    for name, note in row_questions.questions(schema, columns, client, is_open):
        notes["client" if name == client else f"columns.{name}"].append(note)
    # For the console of who has the rows alone: no section of the file has this name.
    notes["rows"] = duplicates.questions(columns, schema.unit, person)
    with files.collected(notes["rows"], "mend this, and keep it to yourself: "):
        if person:
            # Copies with their ids make a column of ids look as if persons had several.
            notes["rows"] += duplicates.questions(columns, "client", None)
            check_one_client(
                cells.distinct(columns[person])[1], of_client, client_names, source
            )
    return Draft(
        schema,
        {
            name: text
            for name, each in notes.items()
            if (text := "; ".join(filter(None, each)))
        },
    )


def written_notation(
    columns: Mapping[str, Cells], divider: str, source: str
) -> Notation:
    """How the numbers of a table are written.

    Raises:
      ValueError: some have a point before the fraction, and some a comma; or marks that
        have three digits behind them may stand between thousands.
    """
    places: dict[tuple[str, int], list[str]] = collections.defaultdict(list)
    for name, column in columns.items():
        for mark in "" if cells.is_numeric(column) else literals.DECIMALS:
            for kind, where in enumerate(cells.fractions(column, mark)):
                if where.any():
                    places[mark, kind].append(f"{name} {place(column, where)}")
    points, commas = ("; ".join(places[mark, 0]) for mark in literals.DECIMALS)
    if points and commas:
        raise ValueError(
            f"{source}: decimal commas in {commas}, and decimal points in {points}: "
            "write all of them one way, or leave columns out (--drop_columns)"
        )
    decimal = "," if commas else "."
    for mark in literals.DECIMALS:
        by_header = mark == "." and not points and divider == ";"
        doubtful = places[mark, 1 if mark != decimal or by_header else 2]
        if doubtful:
            raise ValueError(
                f"{source}: {mark!r} in numbers of {'; '.join(doubtful)} has three "
                "digits behind it: state whether it stands between thousands "
                f'(--thousands="{mark}", or write them without) or before a fraction '
                f'(--decimal="{mark}")'
            )
    return Notation(decimal)


def guessed(columns: Columns) -> dict[str, str | None]:
    """The columns of "label" and "client" by their names, or None.

    A label that has no such name is the last column of 2 to 10 different values.
    """
    low = {name.lower(): name for name in columns}
    by_name = filter(None, map(low.get, literals.WORDS["labels"]))
    few = (
        name
        for name in reversed(columns)
        if 2 <= cells.num_distinct(columns[name]) <= _MOST_LABELS
    )
    label = next(itertools.chain(by_name, few), None)
    words = {_NUMBER.sub("", name): column for name, column in low.items()} | low
    client = next(filter(None, map(words.get, literals.WORDS["clients"])), None)
    return {"label": label, "client": None if client == label else client}


def repeats(name: str, column: Cells) -> bool:
    """Whether a column is of ids, as of persons, of whom some have several rows.

    So says its name, or what it holds: codes; whole numbers that occur about equally
    often, have many digits, repeat less than by chance, or lie far apart, not rounded.
    """
    is_person = _PERSON.match(name)
    is_filled = pa.array(~cells.is_missing(column))
    written, counts = pc.value_counts(column.filter(is_filled)).flatten()
    times = counts.to_numpy()
    numbers = np.sort(cells.values_of(written, "number", Notation()))
    texts = "\n".join(map(str, cells.texts(written[:FEW])))
    is_other = (numbers % 1 > 0).any() or _DAYS.fullmatch(texts)
    if (is_other and not is_person) or _DATED.search(name):
        return False
    rows = times.sum()
    do_repeat = bool(FEW < len(times) < rows)
    if is_person or not do_repeat:
        return do_repeat
    if rows > _VISITS * len(times):
        return False
    is_text = np.isnan(numbers).any()
    first = literals.kind(str(written[0]), Notation())
    if is_text and first not in ("text", "missing"):
        return False
    hint = _ID.search(name)
    if hint and not hint["word"]:
        return True
    if is_text:
        return bool(_CODED.fullmatch(texts)) and rows <= 4 * len(times)
    few_single = (times == 1).mean() < 0.05 and times.max() <= 2 * times.mean()
    is_rounded = (numbers % 10 == 0).mean() >= 0.2
    is_long = numbers[0] >= 10 ** (_LONG_CODE - 1) and not is_rounded
    is_long &= len(f"{numbers[0]:.0f}") == len(f"{numbers[-1]:.0f}")
    if rows <= 4 * len(times) and (few_single or is_long):
        return bool(numbers[-1] >= 1000 or numbers[-1] == len(times))
    # Numbers drawn from such a range would repeat in four times as many rows.
    width = np.ptp(numbers) + 1
    if 4 * (rows - len(times)) < rows + width * np.expm1(-rows / width):
        return True
    is_apart = np.median(np.diff(numbers / _APART)) >= 1
    return bool(is_apart and (times > 1).mean() > 0.02 and not is_rounded)


def _draft_column(
    name: str, column: Cells, notation: Notation, source: str
) -> Proposal:
    numbers = cells.values_of(column, "number", notation)
    is_nan = np.isnan(numbers)
    missing = cells.is_missing(column) & is_nan
    not_numbers = is_nan & ~missing
    if missing.all():
        return _LEFT_OUT, "no cell has a value"
    present = column.filter(pa.array(~missing))
    if cells.num_distinct(present) == 1 and not (is_nan.all() and missing.any()):
        blank = "cell that has a value: does a blank mean no? write 0"
        return _LEFT_OUT, (
            f"constant: {files.quoted(present[0].as_py())} in every "
            f"{blank if missing.any() else 'row'}"
        )
    scaled = _scaled(column, missing, notation)
    if scaled and scaled[0].type == "date":  # 20240331 is no code
        return scaled
    if _PERSON.match(name) and cells.num_distinct(column) > FEW:
        return (
            _LEFT_OUT,
            "a person, by its name? state [person] where one has several rows",
        )
    if repeats(name, column):
        return _LEFT_OUT, REPEAT.format(name) + "; of something else, state the type"
    if not not_numbers.any() and (code := _code(name, column, numbers, source)):
        return code
    return scaled or _category(
        name, column, column.filter(pa.array(not_numbers)), source
    )


def _scaled(column: Cells, missing: np.ndarray, notation: Notation) -> Proposal | None:
    """Numbers, dates, times or per cents, as most cells are; None where they are texts.

    At most three other texts may mean a missing one. What is a quantity, too, but not
    as in most rows, is asked of.
    """
    fits, sample = [], pa.chunked_array([pc.unique(column)[:FEW]])
    for type_, form in literals.WORDS["scales"]:
        plain = cells.without_limits(column) if type_ == "number" else column
        if not np.isnan(cells.values_of(sample, type_, notation, form)).all():
            values = cells.values_of(plain, type_, notation, form)
            fits.append((np.isnan(values[~missing]).sum(), type_, form, values))
    lacking = [fit[0] for fit in fits]
    if not fits or 2 * min(lacking) > len(column):
        return None
    _, type_, form, values = fits[np.argmin(lacking)]
    if type_ == "date" and lacking.count(min(lacking)) == 2:  # 3.4.2024 has all forms
        return _LEFT_OUT, (
            f"{files.quoted(column[int(missing.argmin())].as_py())}: a date? state "
            'type = "date" and form = "dd/mm/yyyy" or "mm/dd/yyyy"'
        )
    is_odd = np.isnan(values) & ~missing
    is_nan = np.isnan(cells.values_of(column, type_, notation, form))
    limits, oddities = (
        pc.unique(column.filter(pa.array(where))).to_pylist()
        for where in (is_nan & ~np.isnan(values), is_odd)
    )
    kinds = {literals.kind(text, notation) for text in oddities}
    is_text = kinds <= {"text"}
    if len(oddities) > _MOST_ODD or not is_text:
        if is_text and type_ == "number":
            return None
        return _LEFT_OUT, (
            f"no {type_ if form == literals.DATE_FORMS[0] else form} "
            f"{place(column, is_odd)}, as in most rows: write all one way, or leave "
            f"them blank{_OF_DAY * ('missing' in kinds and type_ == 'date')}"
            f"{_OF_EXCEL * ('date' in kinds and type_ == 'number')}"
        )
    if (  # M and F beside 1 and 2, as another site codes it
        type_ == "number"
        and len(np.unique(values)) <= min(_MOST_LABELS, _ODD * is_odd.mean())
        and not literals.WORDS["unknown"].keys() & map(str.lower, oddities)
    ):
        return None
    scale = SchemaColumn(
        type_, form=form, missing=tuple(sorted(oddities)), limits=any(limits)
    )
    scaled, note = _numeric(scale, values)
    questions = [
        f"{files.shortened([*map(files.quoted, texts)])}: {question}"
        for texts, question in (
            (
                limits,
                "limits of detection? limits = true reads the numbers behind the signs",
            ),
            (oddities, f"a missing {type_}?{_BELOW * (type_ == 'number')}"),
        )
        if texts
    ]
    return scaled, "; ".join(filter(None, (*questions, note)))


def _code(
    name: str, column: Cells, numbers: np.ndarray, source: str
) -> Proposal | None:
    """Leaves numbers out that count nothing; None where they may."""
    is_code = pc.match_substring_regex(cells.texts(column), _CODE).to_numpy()
    if is_code.any():
        why = (
            f"{files.quoted(column[int(is_code.argmax())].as_py())}: a code, no number"
        )
        if cells.num_distinct(column) > FEW:
            return _LEFT_OUT, why
        return _category(name, column, column, source)[0], why
    present = numbers[~np.isnan(numbers)]
    if _DATED.search(name) and 5_000 < present.min() <= present.max() < 60_000:
        why = f"{present[0]:g}: a date, as Excel counts days? write it as 2024-12-31"
        return _LEFT_OUT, why
    if len(numbers) <= FEW or (present % 1).any():
        return None
    unique = len(np.unique(present)) == len(numbers)
    digits = np.floor(np.log10(np.abs(present).clip(1))) + 1
    if (
        digits.min() == digits.max() >= _LONG_CODE
        and present.min() > 0
        and (present % 100).any()  # a quantity is often rounded, as 45000; no code is
    ):
        return _LEFT_OUT, f"{digits[0]:.0f} digits in every row: a code?"
    if unique and np.ptp(present) < len(present) ** 2 / _COLLISIONS:
        return _LEFT_OUT, "a whole number of its own in every row: an identifier?"
    if _ID.search(name) and (unique or cells.num_distinct(column) > FEW):
        return _LEFT_OUT, "an identifier, by its name?"
    return None


def _category(name: str, column: Cells, rest: Cells, source: str) -> Proposal:
    """Texts, unless they are too many; `rest` are those that are no numbers."""
    texts, count = pc.unique(rest).to_pylist(), cells.num_distinct(column)
    hint = literals.question(texts[:1], "slips", "hints") or literals.question(
        texts * (count < len(column)), "digits"
    )
    hint = hint and f"{files.quoted(texts[0])}: {hint}"
    if count == len(column) == len(rest) > FEW:
        why = "a value of its own in every row: an identifier?"
    elif count > MOST_VALUES:
        why = f"{count} different texts: an identifier?"
    elif count > FEW and (hint or _ID.search(name)):
        why = "an identifier, or names of persons?"
    else:
        listed = [
            name
            for name in encoding.by_name(column, source).categories
            if name.lower() not in (*literals.NO_VALUE, OTHERS)
        ]
        values = (*listed, OTHERS)
        note = hint or f"{count} texts, each a feature" * (count > FEW)
        return SchemaColumn("category", values=values, from_data=values), note
    return _LEFT_OUT, hint or why


def _numeric(column: SchemaColumn, values: np.ndarray) -> Proposal:
    """Bounds from the least to the largest value; the median fills missing cells.

    Numbers that may mean a missing one decide on bounds alone.
    """
    missing = np.isnan(values)
    present = values[~missing]
    bounds = low, high = float(present.min()), float(present.max())
    is_number = column.type == "number"
    marks = row_questions.missing_codes(present) if is_number else []
    is_plain = ~np.isin(present, marks)
    lowest, fifth, median, upper, top, highest = np.quantile(
        present[is_plain] if is_plain.any() else present,
        [0, 0.05, 0.5, 0.9, 0.95, 1],
        method="inverted_cdf",
    )
    codes = np.unique(present)
    binary = is_number and len(codes) <= 2
    blank = missing.mean()
    fill = (float(median),) if blank else ()
    column = dataclasses.replace(
        column,
        bounds=bounds,
        fill=fill[0] if fill else None,
        log=bool(
            is_number
            and not binary
            and median - fifth <= _LEFT * (top - fifth)
            and upper - lowest < _SKEWED * (highest - lowest)
        ),
        from_data=bounds + fill,
    )
    listed = [*(f"{code:.0f}" for code in codes[:_MOST_LABELS]), OTHERS]
    is_whole = is_number and not (codes % 1).any()
    notes = {
        f"binary: {low:g} or {high:g}": binary,
        f"{len(codes)} whole numbers: a code? in the place of bounds: "
        f'type = "category", values = {json.dumps(listed)}': is_whole
        and 2 < len(codes) <= _MOST_LABELS,
        f"{len(codes)} different whole numbers in {len(present)} rows: an identifier? "
        'then type = "drop"': is_whole
        and len(codes) > max(FEW, _DIFFERENT * len(present)),
        f"{100 * blank:.2g} % of the cells are missing": blank,
    }
    return column, "; ".join(note for note, holds in notes.items() if holds)


def strict(
    columns: Columns,
    is_train: np.ndarray,
    *,
    label: str,
    dropped: set[str | None],
    source: str,
) -> tuple[Schema, list[str]]:
    """The schema of a table that has none, and the faults of the table.

    Bounds are those of the training rows, categories and classes those that occur.

    Args:
      columns: (rows,) cells.
      is_train: (rows,) bool.
      label: the column of the class.
      dropped: columns that are no features, the label among them.
      source: the file, in messages.
    """
    schema_columns: dict[str, SchemaColumn] = {}
    wrong: list[str] = []
    class_names: Names = ()
    with files.collected(wrong):
        class_names = classes(columns[label], f"{source}: column {label}")
    for name in columns:
        with files.collected(wrong):
            if name not in dropped:
                schema_columns[name] = _strict_column(
                    columns[name], is_train, f"{source}: column {name}"
                )
    return Schema(schema_columns, label, class_names, classes_from_data=True), wrong


def _strict_column(column: Cells, is_train: np.ndarray, source: str) -> SchemaColumn:
    numbers = cells.values_of(column, "number", Notation())
    finite = np.isfinite(numbers)
    names = [] if finite.any() else cells.distinct(column)[0]
    kinds = {literals.kind(text, Notation()) for text in names}
    if kinds == {"text", "missing"}:
        raise ValueError(
            f"{source} lacks a text {place(column, cells.is_missing(column))}; fill it "
            "in, leave the column out (--drop_columns), or declare its categories in a "
            "schema (`fedsvp schema`) with * for all others"
        )
    if kinds != {"text"}:  # the encoder refuses some
        of_train = numbers[is_train & finite]
        low, high = of_train.min(initial=np.inf), of_train.max(initial=-np.inf)
        return SchemaColumn("number", (float(low), float(high)), from_data=True)
    if len(names) > MOST_VALUES:
        raise ValueError(
            f"{source} holds {len(names)} different texts, more than {MOST_VALUES}; "
            "leave it out (--drop_columns), or merge the rare ones"
        )
    values = encoding.by_name(column, source).categories
    return SchemaColumn("category", values=values, from_data=True)


def classes(written: Cells, source: str) -> Names:
    """The classes that labels name, as they are written, in order.

    Raises:
      ValueError: a label is missing or a fraction, or there are too many of them.
    """
    if (blank := cells.is_missing(written)).any():
        raise ValueError(
            f"{source} lacks a label {place(written, blank)}; leave such rows out, or "
            "write the class in letters; a schema that lists it makes any text a class"
        )
    numbers = cells.values_of(written, "number", Notation())
    fractions = numbers % 1 > 0
    if fractions.any():
        raise ValueError(
            f"{source} holds numbers that are no classes {place(written, fractions)}"
        )
    names = encoding.by_name(written, source).categories
    if not 2 <= len(names) <= MOST_CLASSES:
        raise ValueError(
            f"{source} holds {len(names)} different values; labels are 2 to "
            f"{MOST_CLASSES} classes"
        )
    return names
