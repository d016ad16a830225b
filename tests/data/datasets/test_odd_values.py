"""Every value of a JSON file that is read, replaced by odd ones.

Random damage seldom leaves a file that is still JSON. Here it is: some value is
missing, of another type, too large for a float or an integer, or no number. The file is
read, or refused in a sentence; also a log that its site signed anew.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from damage import Reader, of_check, of_store
from deployed import begun, entries_of, sent
from safetensors.numpy import save_file
from small_folders import whole_run, whole_sweep  # noqa: F401, fixtures

from fedsvp_jax import run
from fedsvp_jax.deploy.chain import BEFORE, Key, new_entry
from fedsvp_jax.report import ledger, page, read
from fedsvp_jax.run.folder import RunFolder
from fedsvp_jax.run.trained_model import read_tensors

ODD: tuple[Any, ...] = (None, True, -1, 0, -0.5, 2**63, 10**400, 1e308)
ODD += ("", "x", "nan", "inf", "\x1b[31m", [], {}, [[]], [None], {"a": 1})
Write = Callable[[Any], None]


class Read(NamedTuple):
    """A value, where it is written, and what reads it."""

    value: Any
    write: Write
    read: Callable[[], Any]


def variants(value: Any) -> Iterator[Any]:
    """An odd value in the place of this one or of a part of it; or without a part.

    Of a list the first three.
    """
    yield from ODD
    if isinstance(value, dict):
        for key, part in value.items():
            yield {name: one for name, one in value.items() if name != key}
            yield from (value | {key: odd} for odd in variants(part))
    if isinstance(value, list):
        for place, part in enumerate(value[:3]):
            before, after = value[:place], value[place + 1 :]
            yield before + after
            yield from ([*before, odd, *after] for odd in variants(part))


def of_json(reader: Reader) -> Read:
    """Of a file of JSON, or of lines of it."""
    text, lines = reader.file.read_text(), reader.file.suffix == ".jsonl"

    def write(value: Any) -> None:
        rows = value if lines else [value]
        reader.file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    rows = [json.loads(line) for line in text.splitlines()] if lines else None
    return Read(json.loads(text) if rows is None else rows, write, reader.read)


def of_folder(source: Path, name: str, reader: Callable[[Path], Any], to: Path) -> Read:
    folder = shutil.copytree(source, to / "folder")
    return of_json(Reader(folder / name, lambda: reader(folder)))


def of_model(source: Path, to: Path) -> Read:
    file = to / "m.safetensors"
    run.load_model(source).save(file)
    leaves, told = read_tensors(file)
    ((name, text),) = told.items()
    return Read(
        json.loads(text),
        lambda value: save_file(leaves, file, {name: json.dumps(value)}),
        lambda: run.load_model(file),
    )


def of_resumed(source: Path, to: Path) -> Read:
    told = json.loads((source / "config.json").read_text())

    def resume(folder: Path) -> None:
        with RunFolder(folder) as place:
            place.start(told, resume=True)

    return of_folder(source, "config.json", resume, to)


def of_log(_: Path, to: Path) -> Read:
    site = begun(to / "log")
    for number in (1, 2):
        sent(site, number)
    told = [{"kind": entry.kind, "body": entry.body} for entry in entries_of(site)]
    key = Key(to / "log.key")

    def sign(entries: Any) -> None:
        lines: list[bytes] = []
        before = BEFORE
        for entry in entries:
            before, line = new_entry(key, before, entry["kind"], entry["body"])
            lines.append(line)
        site.path.write_bytes(b"".join(lines))

    (witness,) = to.rglob("*.seen.json")

    def audit() -> None:
        found = ledger.audit(site.path, witness)
        page.write(to / "page.html", "ledger.html", ledger=found, budgets=())

    return Read(told, sign, audit)


OF_SWEEP = ("config.json", "cells.json", "results.jsonl")
ALL: dict[str, Callable[[Path, Path], Read]] = {
    **{
        f"{name} of a {of}": lambda source, to, n=name, r=reader: of_folder(
            source, n, r, to
        )
        for of, reader, names in (
            ("run", read.read_run, read.RUN_FILES),
            ("sweep", read.read_sweep, OF_SWEEP),
            ("model", run.load_model, ("config.json",)),
        )
        for name in names
    },
    "config.json to resume": of_resumed,
    "model file": of_model,
    **{
        name: lambda _, to, made=made: of_json(made(to))
        for name, made in {
            "store.json": of_store("store.json"),
            "check": of_check("flip, arguments"),
            "check, sparse": of_check("sparse vector"),
        }.items()
    },
    "signed log": of_log,
}


@pytest.mark.parametrize(
    "most", [60, pytest.param(2000, marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.parametrize("name", ALL)
def test_a_file_with_an_odd_value_is_read_or_refused_in_a_sentence(
    name: str, most: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole = "whole_sweep" if name.endswith("sweep") else "whole_run"
    found = ALL[name](request.getfixturevalue(whole), tmp_path)
    drawn = list(variants(found.value))
    random.Random(0).shuffle(drawn)
    tried = 0
    for value in drawn:
        try:
            found.write(value)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue  # it is not even signed, or no rows
        tried += 1
        try:
            found.read()
        except (ValueError, FileNotFoundError) as error:
            assert str(error) and "\n" not in str(error)
        if tried == most:
            break
    assert tried > 30
