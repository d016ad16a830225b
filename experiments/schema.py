"""Drafts the public schema of a table: CSV, Parquet, xlsx, SPSS, Stata or SAS.

  fedsvp schema DATA.csv --output=schema.toml
  fedsvp schema DATA.csv --label_column=death --client_column=hospital

The schema says of every column what it is: number, category, date, or nothing to learn
from; its bounds or categories; what fills a missing cell; which column is the class and
which the client. `train --schema=schema.toml` reads it, the model carries it, and every
site of a federation uses the same file. The draft takes bounds, categories, fill values
and classes from the records and marks each with a line `from_data`: state what is known
without them (a form, a codebook, a law of nature) and write `from_data = false` there,
or use --confirm. While a mark is there, every ε is nominal. --label_column and
--client_column are guessed by name.

  fedsvp schema --confirm=schema.toml --known=sex,age,dose

lists what is marked, writes `from_data = false` in the place of each mark, and deletes
the comments that begin with TODO: your statement that each entry, as it stands in the
file now, is known without the records. An entry that you changed is accepted. One that
is still what the records said (bounds, a logarithm, a fill, categories, classes) is
refused, unless --known names its column. So is a bound that was only rounded: 116 to
117, say, since the change is at most 1 % of the bound and of the range. Accepted are 0
as a bound, 0 and 1, no and yes, female and male and their like: any form says them.
Texts that count as `missing` need a name of their own, as dose.missing: who knows a
bound knows no mark of a missing cell. So do shares within 1 % of the records', as
death.shares, unless two decimals write them: of many rows those tell no count.
dose.fill names that entry alone.
Without --known it lists what is refused, and last all these names: strike out what you
do not know without the records. type = "drop" leaves a column out.

  fedsvp schema DATA.csv --bounds_epsilon=1

buys the bounds of numbers, per cents, dates and times by private quantiles: two draws
for each column, between which ε is split evenly. They hide one row, or one person where
a column of persons is drafted; the schema says so, and every ε of a run counts it. It
needs many rows: about 1,550 for each such column at ε = 1 (15,500 for ten columns), a
half at ε = 2. With fewer, more than 1 of 20 rows would lie beyond a bound, and it is
refused: take the bounds of a form or a codebook instead.

Exit status: 0 done; 2 the file cannot be read (one line says all that is wrong).
"""

import pathlib
import re
import shlex
from collections.abc import Sequence

from absl import flags

from fedsvp_jax.core.files import replace_file
from fedsvp_jax.data.tables import draft, files, literals, table, table_file
from fedsvp_jax.data.tables import schema as schemas

from . import command, messages

command.define("schema")
# What the draft says of the rows beside its marks: that a cell was blank, or none.
_TODO = re.compile("^# (TODO: |fill = …  # no cell).*\n", re.M)
# The lines of a column that is left out, up to the next section and its comments.
_DROPPED = re.compile(
    r"^([ \t]*\[[ \t]*columns[ \t]*\.[^\n]*\n)"
    r"(?=(?:(?![ \t]*\[).*\n)*?[ \t]*[\"']?type[\"']?[ \t]*=[ \t]*[\"']drop)"
    r"(?:(?![ \t]*\[).+(?:\n|\Z)|\n)*?(?=(?:[ \t]*(?:#.*)?\n)*(?:[ \t]*\[|\Z))",
    re.M,
)
_MARK = re.compile("^[ \t]*from_data[ \t]*=.*$", re.M)

_HEAD = """Public schema of {name}, drafted by `fedsvp schema`.
A line `from_data` marks what was read off the records, and holds what they said: their
least and largest value, and the median that fills; their categories; or their classes,
and the share of each. State what is known without them, then write false in its place;
until then every ε is nominal.
unit: "row" protects one row, "person" all rows of one, "client" all rows of one client.
"person" needs [person], column = "ID", rows = 1: so many rows of each are kept.
Below [label], shares = [0.7, 0.3] states the shares of the classes, if these are
known without the rows (a registry, a publication): `plan` needs them, and two decimals
do.
decimal, thousands, encoding: how every such file is written, whatever its records. One
whose fractions all have the other decimal mark is read by that.
Types: number, percent, category (* takes all others, and blanks), date, time, drop,
which leaves a column out, whatever else stands below its name; [drop] lists such."""


def confirm(path: pathlib.Path) -> None:
    """Unmarks the entries of a schema, and lists them as what the user now states.

    Of a column that is left out, what the draft said of it is deleted.

    Raises:
      OSError, ValueError: as `read_schema`; or entries are as the records said, whose
        columns --known does not name.
    """
    schema = schemas.read_schema(path)
    entries = {
        name: schemas.written(column)
        for name, column in schema.columns.items()
        if column.from_data
    }
    if schema.label and schema.classes_from_data:
        entries[schema.label] = schemas.written(schema, "label")
    as_read = {name: schemas.as_read(schema, name) for name in entries}
    pairs = [(name, entry) for name in as_read for entry in as_read[name]]
    columns = [*schema.columns, schema.label or "", *map(".".join, pairs)]
    excepted = table.listed_columns(flags.FLAGS.known, columns)
    files.check_columns(excepted, columns, f"--known: {path}")
    refused: dict[str, list[str]] = {}
    listed = dict.fromkeys(excepted)
    for name, entry in pairs:
        # What else is known of a column says nothing of these.
        exact = f"{name}.{entry}"
        part = exact if entry in ("missing", "shares") else name
        if {part, exact}.isdisjoint(excepted):
            refused.setdefault(name, []).append(entry)
            listed[part] = None
    if not refused:
        text = _TODO.sub("", path.read_text(encoding="utf-8-sig"))
        text = _DROPPED.sub(
            r'\1type = "drop"\nfrom_data = false\n',
            _MARK.sub("from_data = false", text),
        )
        if still_marked := schemas.from_toml(text, str(path)).from_records:
            raise ValueError(
                f"{path} still marks {', '.join(still_marked)}; write from_data = false"
            )
        replace_file(path, text.encode())
    print(
        messages.filled(
            "confirm.txt",
            path=path,
            entries=entries,
            as_read=as_read,
            refused=refused,
            known=shlex.quote(",".join(listed)),
        ),
        end="",
    )
    if refused:
        raise ValueError(
            f"{path}: {len(refused)} of {len(entries)} marked columns may still say "
            "what the records said: change them, or --known=NAME if no record told you"
        )


def main(arguments: Sequence[str]) -> None:
    """Writes the draft, and prints what the user must still check."""
    values = flags.FLAGS
    if values.confirm is not None:
        return confirm(pathlib.Path(values.confirm))
    if len(arguments) != 2:
        raise ValueError("name one file of a table")
    path, target = pathlib.Path(arguments[1]), pathlib.Path(values.output)
    columns, form = table_file.read_table(path)
    guesses = draft.guessed(columns)
    stated = {"label": values.label_column, "client": values.client_column}
    stated = {key: literals.normal(name) for key, name in stated.items() if name}
    label, client = (guesses | stated).values()
    client = None if client in ("none", label) else client
    features = table.listed_columns(values.columns, columns)
    drop = table.listed_columns(values.drop_columns, columns)
    files.check_columns((label, client, *features, *drop), columns, str(path))
    if features:  # a column of persons is none, and is proposed as the unit
        drop += [
            name
            for name in columns
            if name not in features and not draft.repeats(name, columns[name])
        ]
    if label is None:
        raise ValueError(f"{path}: name the class by --label_column")
    if target.exists():
        raise ValueError(f"{target} exists; name another file by --output")
    notation = None
    if values.decimal or values.thousands:
        other = "," if values.thousands == "." else "."
        notation = literals.Notation(values.decimal or other, values.thousands or "")
    drafted, notes = draft.proposed(
        columns,
        label=label,
        client=client,
        drop=drop,
        source=str(path),
        notation=notation,
        form=form,
    )
    if values.bounds_epsilon is not None:
        from .bought_bounds import with_bought_bounds

        drafted = with_bought_bounds(drafted, columns, values.bounds_epsilon)
    for name in guesses:
        if name not in stated:
            notes[name] = f"guessed, check it; {notes.get(name, '')}".rstrip("; ")
    if client is None and "client" not in stated:
        notes["client"] = "no column has such a name; if one does, --client_column=NAME"
    head = _HEAD.format(name=path.name)
    replace_file(target, schemas.to_toml(drafted, notes, head).encode())
    print(
        messages.filled(
            "schema.txt",
            path=path,
            target=target,
            schema=drafted,
            notes=notes,
            counts=columns[label].value_counts().to_pylist(),
        )
    )


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
