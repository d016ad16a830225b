"""A federation over tables: proposed once, joined by each, by command."""

import contextlib
import csv
import dataclasses
import html
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from commands import Ended, assert_sentence, command, start, typed
from deployed import example
from scipy import special, stats

from experiments import budgets, messages
from fedsvp_jax import run
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn, read_schema
from fedsvp_jax.deploy import Client, Refused, Site, tables
from fedsvp_jax.federation import loading
from fedsvp_jax.mechanisms import shared_noise
from fedsvp_jax.report import headline

HOSPITALS = 4
COUNTS = ("--num_examples=450", "--max_num_examples=120", "--total_epsilon=3")
COLUMN = '[client]\ncolumn = "hospital"\n'
LONG = "a_very_long_name_of_column"


@pytest.fixture(scope="module")
def dealt(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Tables, and a proposal whose schema was drafted of a table of all."""
    folder = tmp_path_factory.mktemp("dealt")
    example("flower_sums/deal.py").deal(folder, HOSPITALS)
    schema = folder / "schema.toml"
    stated = schema.read_text().replace("[5, 30]", '[5, 30]\nunits = "mm"')
    schema.write_text(stated + COLUMN)
    ended = proposed(folder, folder / "federation")
    assert ended.status == 0, ended
    return folder


@pytest.fixture(autouse=True)
def budget_list() -> pathlib.Path:
    """The list of all logs that a test begins, who finds none."""
    path = budgets._path()
    path.unlink(missing_ok=True)
    return path


def proposed(dealt: pathlib.Path, target: pathlib.Path, *flags: str) -> Ended:
    told = (f"--schema={dealt / 'schema.toml'}", f"--num_clients={HOSPITALS}")
    words = ("experiments.site", "propose", str(target))
    return command(*words, *told, *COUNTS, "--num_rounds=3", *flags)


def join(
    dealt: pathlib.Path,
    number: int,
    log: pathlib.Path,
    *others: str,
    folder: str | pathlib.Path = "federation",
) -> Ended:
    told = (f"--records={dealt / f'hospital-{number}.csv'}", f"--log={log}")
    return command("experiments.site", "join", str(dealt / folder), *told, *others)


def wait_until(reached: Callable[[], bool], seconds: float = 120) -> None:
    """Until then it looks ten times a second."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.1)


def spoken(agreement: str) -> str:
    """In parts that one reads out."""
    return " ".join(agreement[place : place + 8] for place in range(0, 64, 8))


@pytest.mark.hole
def test_a_proposal_and_a_table_become_a_log_that_needs_nothing_else(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Without a clone of the repository and code there was no such federation."""
    log = tmp_path / "log"
    shown = join(dealt, 1, log)
    assert shown.status == 0, shown
    assert "upload: ε = 4.463; at most 70 of 100 guesses are right" in shown.stdout
    assert "ε = 3 at δ = 1e-05 for" in shown.stdout and "(proved)" in shown.stdout
    assert "None" not in shown.stdout.replace("None may be absent", "")
    assert "mechanism: gaussian, 3 rounds; ε is counted by pld\n" in shown.stdout
    client = tables.table_client(log)
    server = tables.server_client(dealt / "federation")
    assert f"agreement: {spoken(server.policy.agreement)}\n" in shown.stdout
    assert client.policy.agreement == server.policy.agreement
    for mine, theirs in zip(client.initial_arrays, server.initial_arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    rows = len(rows_of(dealt / "hospital-1.csv"))
    assert client.num_examples == rows - round(rows / 10)  # test_fraction
    again = join(dealt, 1, log)  # after its questions of the rows
    assert again.status == 2 and "it has begun already" in again.stderr, again
    assert "Is this your table, in these units?" in again.stdout
    ledger = command("experiments.ledger", str(log))
    assert ledger.status == 0 and "verdict: in order" in ledger.stdout, ledger
    # The adversary was "honest-but-curious clients, 2 colluding" here alone.
    (promise,) = re.findall("^Against the server, which .*$", shown.stdout, re.M)
    assert f"\n{promise}\n" in ledger.stdout
    assert "honest-but-curious" not in ledger.stdout


@pytest.mark.hole
def test_an_error_advises_what_the_verb_can_do(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """`join` advised --drop_columns, `propose` nothing, and `ledger` the log's key."""
    assert_sentence(proposed(dealt, dealt / "federation"), "File exists; name a new")
    rows = rows_of(dealt / "hospital-3.csv")
    number = next(name for name in rows[0] if "." in rows[0][name])
    rows[0][number] = ""
    own = written(tmp_path / "own.csv", rows)
    words = ("join", str(dealt / "federation"), f"--records={own}")
    ended = command("experiments.site", *words, f"--log={tmp_path / 'log'}")
    assert_sentence(ended, "lacks a finite number")
    assert "drop_columns" not in ended.stderr
    assert "or ask the coordinator to state in the schema, below [co" in ended.stderr
    words = ("join", str(dealt / "federatoin"), f"--records={own}")
    ended = command("experiments.site", *words, f"--log={tmp_path / 'log'}")
    assert_sentence(ended, f"did you mean {dealt / 'federation'}?")
    many = written(tmp_path / "many.csv", rows[1:] * 2)
    words = ("join", str(dealt / "federation"), f"--records={many}")
    ended = command("experiments.site", *words, f"--log={tmp_path / 'log'}")
    assert "a new proposal with --max_num_examples=223\n" in ended.stderr
    (tmp_path / "north.key").touch()
    ended = command("experiments.ledger", str(tmp_path / "north"))
    assert_sentence(ended, "north: No such file or directory")
    assert "did you mean" not in ended.stderr


REHEARSED = """
schema = 1
test_fraction = 0.2
[label]
column = "died"
classes = ["no", "yes"]
[columns.ward]
type = "category"
values = ["north", "*"]
[columns.others]
type = "category"
values = ["*"]
[columns.age]
type = "number"
bounds = [18, 19]
[columns.share]
type = "percent"
bounds = [0, 100]
[columns.seen]
type = "date"
bounds = [2010-01-01, 2010-12-31]
[columns.hour]
type = "time"
bounds = [08:00:00, 08:10:00]
[columns.sex]
type = "drop"
"""


@pytest.mark.hole
def test_the_rehearsals_rows_fit_their_schema(tmp_path: pathlib.Path) -> None:
    """Half the cells were `*`, and numbers touched both bounds: `join` refused."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
    script = page.partition("cat > made_up.py <<'END'\n")[2].partition("END\n")[0]
    (tmp_path / "schema.toml").write_text(REHEARSED)
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    ended = command(
        *("experiments.site", "propose", str(tmp_path / "federation")),
        *(f"--schema={tmp_path / 'schema.toml'}", "--num_clients=3"),
        *("--num_examples=72", "--max_num_examples=24", "--total_epsilon=3"),
        *("--colluders=1", "--num_rounds=2"),
    )
    assert ended.status == 0, ended
    words = ("join", str(tmp_path / "federation"), f"--records={tmp_path / '1.csv'}")
    ended = command("experiments.site", *words, f"--log={tmp_path / 'log'}")
    assert ended.status == 0, ended
    for problem in ("beyond its bounds", "none of its", "or nearly", "from_data"):
        assert problem not in ended.stdout + ended.stderr, ended


def rows_of(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open() as file:
        return [*csv.DictReader(file)]


def written(path: pathlib.Path, rows: list[dict[str, str]]) -> pathlib.Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.hole
def test_columns_beyond_the_schema_are_named_and_ignored(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """`join` refused each of them, and an export of a hospital has always more."""
    rows, log = rows_of(dealt / "hospital-2.csv"), tmp_path / "log"
    more = [{"patient_id": f"p{n // 2}"} | row for n, row in enumerate(rows)]
    more = [row | {"note, free": "told in private"} for row in more]
    own = written(tmp_path / "own.csv", more)
    words = ("experiments.site", "join", str(dealt / "federation"), f"--records={own}")
    ended = command(*words, f"--log={log}")
    assert ended.status == 0, ended
    sentence = "columns that the schema does not name are ignored: note, free, pati"
    assert ended.stderr.count(sentence) == 1
    assert "in private" not in ended.stdout + ended.stderr
    assert "a person with several is protected less" in ended.stderr
    with pytest.warns(UserWarning) as warned:
        client = tables.table_client(log)  # as `node` and `test` read it
    assert sentence in str(warned[-1].message)
    client.site.read()
    written(own, rows)
    tables.table_client(log).site.read()  # the same records
    lacking = next(iter(read_schema(dealt / "schema.toml").features))
    for column in (lacking, "finding"):  # "a column must be one of …, got 'finding'"
        written(own, [{k: v for k, v in row.items() if k != column} for row in more])
        ended = command(*words, f"--log={log}")
        assert_sentence(ended, f"own.csv lacks the column {column}")
    own.write_bytes(own.read_bytes() + b"\xf6")
    ended = command(*words, f"--log={log}")
    assert_sentence(ended, "is not utf-8; save the file with a byte order mark")
    assert "state encoding" not in ended.stderr  # the schema is the coordinator's


@pytest.mark.hole
def test_a_table_in_other_units_joins_by_a_word_of_its_own(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Grams for kilograms joined without a word, and all became the upper bound; then
    --again, which begins a second budget, was the word.
    """
    log, rows = tmp_path / "log", rows_of(dealt / "hospital-2.csv")
    number = next(name for name in rows[0] if "." in rows[0][name])
    for row in rows:
        row[number] = str(1000 * (1 + abs(float(row[number]))))
    own = written(tmp_path / "own.csv", rows)
    words = ("experiments.site", "join", str(dealt / "federation"), f"--records={own}")
    ended = command(*words, f"--log={log}")
    clamped = f"column {number}: {len(rows)} of {len(rows)} cells are clamped"
    assert_sentence(ended, clamped)
    assert "in another unit than the schema's? Nothing has begun" in ended.stderr
    numbers = [float(row[number]) for row in rows]
    assert f"(it has {min(numbers):.0f} to {max(numbers):.0f}, its b" in ended.stderr
    assert not log.exists()
    assert_sentence(command(*words, f"--log={log}", "--again"), clamped)
    assert not log.exists()
    ended = command(*words, f"--log={log}", "--accept_units")
    assert ended.status == 0 and f"warning: {clamped}" in ended.stdout
    assert "looked at the rows: keep them to yourself" in ended.stdout
    assert "clamped" not in log.read_text()
    rows = rows_of(dealt / "hospital-2.csv")
    for row in rows[:3]:
        row[number] = "-9"
    coded = written(tmp_path / "coded.csv", rows)
    ended = command(*words[:-1], f"--records={coded}", f"--log={tmp_path / 'coded'}")
    assert_sentence(ended, f'3 of {len(rows)} cells are "-9", beyond its bounds')
    remedy = (
        "then blank those cells, or ask for a new proposal, whose schema states mis"
    )
    assert f"a code for a missing one? {remedy}" in ended.stderr
    assert (
        " and a fill. Nothing has begun" in ended.stderr
        and not (tmp_path / "coded").exists()
    )
    second = command(*words, f"--log={tmp_path / 'second'}", "--accept_units")
    assert_sentence(second, f"has a log of this proposal already: {log}. Two could")
    assert not (tmp_path / "second").exists()


@pytest.mark.hole
def test_a_site_is_asked_whether_its_classes_are_swapped(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """One whose 0 and 1 were the other way round joined, first without a word, and
    then with a warning, where other units are refused.
    """
    rows, log = rows_of(dealt / "hospital-0.csv"), tmp_path / "log"
    swapped = [row | {"finding": "malignant"} for row in rows[1:]]
    asked = "fit the rows far better in another order: are the classes of the rows swa"
    lines = {}
    for name, each in (("right", rows), ("log", swapped + rows[:1])):
        own = written(tmp_path / f"{name}.csv", each)
        words = ("join", str(dealt / "federation"), f"--records={own}")
        words = ("experiments.site", *words, f"--log={tmp_path / name}")
        if name == "log":
            ended = command(*words)
            assert_sentence(ended, asked)
            assert "Nothing has begun: mend the table" in ended.stderr
            assert ended.stderr.endswith("looked at the rows: keep it to yourself\n")
            assert not log.exists()
            words += ("--accept_units",)
        ended = command(*words)
        assert ended.status == 0 and (asked in ended.stdout) == (name == "log"), ended
        lines[name], _, rest = ended.stdout.partition("site ")
        lines[name] += rest.partition("site " + name)[0]
    share = 100 * (1 - 1 / len(rows))
    shares = f"{100 - share:.1f} % are “benign”, {share:.1f} % are “malignant”"
    assert f"of your {len(rows)} rows {shares}: are these your" in lines["log"]
    assert "100.0 % are “benign”, 0.0 % are “malignant”" in lines["right"]
    assert "looked at the rows: keep them to yourself" in lines["log"]
    # What scrolled away is asked again, and begins nothing.
    entries = log.read_bytes()
    ended = command(*words)
    assert ended.status == 2 and asked in ended.stdout and shares in ended.stdout
    assert log.read_bytes() == entries
    tables.table_client(log)  # a node does not ask at each of its rounds
    for shown in (log, log.with_name("log.key")):
        assert "swapped" not in shown.read_text()


def test_a_site_sees_its_columns_beside_the_schema(tmp_path: pathlib.Path) -> None:
    """Pounds for kilograms, F for M and packs for cigarettes joined without a word."""
    schema = """schema = 1
[label]
column = "dead"
classes = ["no", "yes"]
shares = [0.5, 0.5]
[columns.weight]
type = "number"
bounds = [30, 200]
fill = 70
[columns.sex]
type = "category"
values = ["F", "M", "*"]
[columns.crp]
type = "number"
bounds = [0, 300]
log = true
[columns.smoker]
type = "number"
bounds = [0, 1]
[columns.admitted]
type = "date"
bounds = [2019-01-01, 2025-12-31]
"""
    filler = "".join(
        f'[columns.{LONG}_{n}]\ntype = "number"\nbounds = [1000, 9000]\n'
        for n in range(30)
    )
    (tmp_path / "schema.toml").write_text(schema + filler)
    rows = [
        {"weight": f"{90 + n}", "sex": "FMMM"[n % 4], "crp": f"{n / 10}"}
        | {"smoker": f"{n % 5 // 4}", "admitted": f"2021-03-{1 + n % 3:02}"}
        | {"dead": ("no", "yes")[n % 2], "split": "train" if n < 100 else "test"}
        | {f"{LONG}_{column}": f"{3000 + column}" for column in range(30)}
        for n in range(120)
    ]
    folder = tmp_path / "federation"
    ended = proposed(tmp_path, folder)
    assert ended.status == 0, ended
    own, log = written(tmp_path / "own.csv", rows), tmp_path / "log"
    words = ("experiments.site", "join", str(folder), f"--records={own}")
    ended = command(*words, f"--log={log}")
    assert ended.status == 0, ended
    _, asked, shown = ended.stdout.partition("Is this your table, in these units?")
    shown, kept, _ = shown.partition("These lines looked at the rows: keep them to you")
    assert asked and kept and "100 rows that train" in shown
    lines = [line for line in shown.splitlines() if line.startswith("  ")]
    name = 24 * " "
    assert lines[:6] == [
        f"  weight{name[6:]}  140 (100 to 179), bounds 30 to 200, a blank is 70.0",
        f"  sex{name[3:]}  F 25.0 %, M 75.0 %, * 0.0 %",
        f"  crp{name[3:]}  5 (1 to 8.9), bounds 0 to 300",
        f"  smoker{name[6:]}  0 80.0 %, 1 20.0 %",
        f"  admitted{name[8:]}  2021-03-02, bounds 2019-01-01 to 2025-12-31",
        "  a_very_long_name_of_col…  3000 (3000 to 3000), bounds 1000 to 9000",
    ]
    assert lines[-1] == "  … and 10 columns more" and len(lines) == 26
    assert max(map(len, lines)) <= 80
    assert "3000" not in log.read_text()


@pytest.mark.parametrize(("blank", "verb"), [(30, "join"), (29, "join"), (30, "train")])
def test_a_column_without_any_value_joins_no_training(blank: int, verb: str) -> None:
    """1,565 of 1,565 cells were blank and filled, and the table joined."""
    column = SchemaColumn("number", (0, 9), fill=1)
    rows = types.SimpleNamespace(
        changed_cells={"crp": {"missing": np.arange(30) < blank}},
        extremes={"crp": column},
    )
    schema = Schema({"crp": column})
    text = messages.filled("misfits.txt", verb=verb, rows=rows, schema=schema)
    refused = "column crp: 30 of 30 cells are missing" in text
    assert refused == ((blank, verb) == (30, "join"))


def test_a_site_of_one_class_or_of_copies_is_asked_at_its_join(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    rows = rows_of(dealt / "hospital-2.csv")
    label = read_schema(dealt / "schema.toml").label
    assert label is not None
    one = [row | {label: rows[0][label]} for row in rows]
    twice = rows[:90] + rows[:10]
    for name, each in (("one", one), ("both", rows[1:]), ("twice", twice)):
        own = written(tmp_path / f"{name}.csv", each)
        words = ("join", str(dealt / "federation"), f"--records={own}")
        ended = command("experiments.site", *words, f"--log={tmp_path / name}")
        assert ended.status == 0, ended
        asked = f"all rows that train are of the class {rows[0][label]}: does"
        assert (asked in ended.stdout) == (name == "one")
        copied = "exported twice?" in ended.stdout + ended.stderr
        assert copied == (name == "twice")


@pytest.mark.hole
def test_a_site_of_more_rows_than_a_step_takes_elsewhere_joins_by_the_defaults(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The steps were of 4,096 rows, and the largest site was refused at its `join`."""
    place = tmp_path / "federation"
    counts = ("--num_examples=18000", "--max_num_examples=5000")
    ended = proposed(dealt, place, *counts)
    assert ended.status == 0, ended
    config = tables.read_policy(place).training
    assert config.batch_size == 5000
    assert config.learning_rate == pytest.approx(0.2 * 5000 / 4500)  # of the mean
    rows = rows_of(dealt / "hospital-2.csv")
    own = written(tmp_path / "own.csv", rows * (5500 // len(rows)))
    words = ("join", str(place), f"--records={own}", f"--log={tmp_path / 'log'}")
    ended = command("experiments.site", *words)
    count = re.search(r"training examples: (\d+)", ended.stdout)
    assert ended.status == 0 and count and 4096 < int(count[1]) <= 5000, ended
    own = written(tmp_path / "larger.csv", rows * (6600 // len(rows)))
    words = ("join", str(place), f"--records={own}", f"--log={tmp_path / 'none'}")
    ended = command("experiments.site", *words)
    larger = (
        r"has (\d+) training rows, and all sites agreed on at most 5000 each, .*=\1$"
    )
    assert ended.status == 2 and re.search(larger, ended.stderr, re.M), ended
    # It asked "Is this your table?", and to abandon a log that did not exist.
    assert "your table" not in ended.stdout and "abandon" not in ended.stdout
    many = ("--num_examples=3000000", "--max_num_examples=1000000")
    ended = proposed(dealt, tmp_path / "too_many", *many)
    assert_sentence(ended, "too coarse: let the largest site join with fewer")


def test_who_may_be_away_is_who_the_threshold_spares(dealt: pathlib.Path) -> None:
    """ "h, together, may be away": of 5 and h = 1 nobody may."""
    for clients, colluders, away in ((5, 1, 0), (49, 16, 15), (5, 3, 1)):
        assert clients - shared_noise.least_opened(clients, colluders) == away
        said = headline.filled("sharing", clients, colluders)
        assert f"holds while at most {colluders} of the {clients} clients tell" in said
        assert f" {away or 'None'} may be absent: " in said
    shown = proposed(dealt, dealt / "second").stdout
    assert "at most 2 of the 4 clients tell the server or one" in shown
    assert "1 may be absent: a round needs 3 or more" in shown
    assert (
        "nobody states --colluders, it is a third of the sites, two at least" in shown
    )
    assert "2 of 4 needs 1.41 times as much noise as 0: propose with a smal" in shown


@pytest.mark.hole
def test_a_second_budget_of_a_table_is_seen(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It began without a word, and ε = 3 was promised twice."""
    assert join(dealt, 3, tmp_path / "log").status == 0
    anew = tmp_path / "anew"
    assert proposed(dealt, anew).status == 0
    has = "has a budget already, and another log would add its own: ε = 3 at δ = 1e-05"
    assert_sentence(join(dealt, 3, tmp_path / "second", folder=anew), has)
    table, copied = dealt / "hospital-3.csv", tmp_path / "own.csv"
    copied.write_bytes(table.read_bytes())
    words = ("experiments.site", "join", str(anew))
    other = command(*words, f"--records={copied}", f"--log={tmp_path / 'second'}")
    assert_sentence(other, has)
    table.write_bytes(b"\n".join(table.read_bytes().splitlines()[:-1]) + b"\n")
    for file in ("log", "log.key", "witness/log.seen.json"):
        (tmp_path / file).unlink()
    forgotten = join(dealt, 3, tmp_path / "log", folder=anew)  # and changed
    assert_sentence(forgotten, has)
    assert not (tmp_path / "log").exists()
    shown = join(dealt, 3, tmp_path / "log", "--again", folder=anew)
    assert (
        shown.status == 0
        and "in all ε = 6 at δ = 2e-05 (proved), against" in shown.stdout
    ), shown


@pytest.mark.hole
def test_two_logs_of_one_table_never_answer_in_one_training(
    dealt: pathlib.Path, tmp_path: pathlib.Path, budget_list: pathlib.Path
) -> None:
    """Both joined by one proposal. In a sum they move twice as far: 8 + 8 was said of
    ε = 17.2.
    """
    log, second, table = tmp_path / "log", tmp_path / "second", tmp_path / "own.csv"
    table.write_bytes((dealt / "hospital-3.csv").read_bytes())
    assert join(dealt, 3, log).status == 0
    for again in ((), ("--again",), ("--again", f"--records={table}")):
        refused = join(dealt, 3, second, *again)
        assert_sentence(refused, f"has a log of this proposal already: {log}. Two coul")
        assert "Another training needs a new proposal, and so doe" in refused.stderr
        assert not second.exists() and not second.with_name("second.key").exists()
    # Of the same settings and schema, and of another training all the same.
    anew = tmp_path / "anew"
    assert proposed(dealt, anew).status == 0
    assert join(dealt, 3, second, "--again", folder=anew).status == 0
    policy = Site(second).policy
    assert policy.agreement == tables.read_policy(anew).agreement
    assert policy.agreement != Site(log).policy.agreement
    with pytest.raises(Refused, match="settings when its log was begun: run_id is"):
        Site(log, policy).read()
    added, condition = (
        "in all ε = 6 at δ = 2e-05",
        "more, if two of these logs take part",
    )
    shown = command("experiments.ledger", str(log)).stdout
    assert added in shown and condition not in shown
    # A list, a proposal and a log of an earlier version, which had no id.
    budget_list.write_text(budget_list.read_text().replace('"run_id"', '"other"', 1))
    shown = command("experiments.ledger", str(log)).stdout
    assert added in shown and condition in shown
    settings = json.loads((anew / "settings.json").read_text())
    assert settings.pop("run_id")
    (anew / "settings.json").write_text(json.dumps(settings))
    earlier = join(dealt, 2, tmp_path / "earlier", folder=anew)
    assert earlier.status == 0, earlier
    again = join(dealt, 2, tmp_path / "again", "--again", folder=anew)
    assert again.status == 0 and condition in again.stdout, again
    # Of which nothing was spent.
    words = ("abandon", f"--log={second}", f"--witness={tmp_path / 'witness'}")
    assert command("experiments.site", *words).status == 0
    assert "in all" not in command("experiments.ledger", str(log)).stdout


@pytest.mark.hole
def test_of_two_logs_begun_at_once_one_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both found no budget of the table, and both began."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    table, begun = tmp_path / "table.csv", threading.Event()
    table.write_text("a\n")
    promise = {"total_epsilon": 1.0, "target_delta": 1e-5, "relation": "one"}
    policy = types.SimpleNamespace(says=lambda: promise, asked={"run_id": None})

    def begin(name: str, start: Callable[[], None]) -> list[Any]:
        witness = types.SimpleNamespace(path=tmp_path)
        site = types.SimpleNamespace(policy=policy, path=tmp_path / name)
        site.witness = witness
        return budgets.begin(site, start, [str(table)], again=False)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(begin, "first", lambda: (begun.set(), time.sleep(0.5)))
        assert begun.wait(10)
        second = pool.submit(begin, "second", lambda: None)
        assert len(first.result()) == 1
        with pytest.raises(ValueError, match="another log would add its own"):
            second.result()


@pytest.mark.hole
def test_a_kill_while_a_log_begins_lets_no_other_begin_unasked(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line was written behind the log; between both a kill left none."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    table, file = tmp_path / "table.csv", tmp_path / "fedsvp_jax" / "budgets.jsonl"
    table.write_text("a\n")
    promise = {"total_epsilon": 1.0, "target_delta": 1e-5, "relation": "one"}
    site = types.SimpleNamespace(
        policy=types.SimpleNamespace(says=lambda: promise, asked={"run_id": None}),
        path=tmp_path / "log",
        witness=types.SimpleNamespace(path=tmp_path),
    )
    lines: list[str] = []

    def start() -> None:
        lines.append(file.read_text())  # what a kill would leave
        if len(lines) == 2:
            raise ValueError("no log")

    assert len(budgets.begin(site, start, [str(table)], again=False)) == 1
    assert json.loads(lines[0])["log"] == str(tmp_path / "log")
    with pytest.raises(ValueError, match="no log"):
        budgets.begin(site, start, [str(table)], again=True)
    assert lines[1].count("\n") == 2 and file.read_text() == lines[0]
    with pytest.raises(ValueError, match="another log would add its own"):
        budgets.begin(site, start, [str(table)], again=False)


@pytest.mark.hole
def test_a_damaged_list_of_budgets_is_named(
    dealt: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was JSON's own error, without the file's name."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "fedsvp_jax").mkdir()
    file = tmp_path / "fedsvp_jax" / "budgets.jsonl"
    file.write_text('{"log": \n')
    table = str(dealt / "hospital-0.csv")
    policy = tables.read_policy(dealt / "federation", table)
    client = tables.table_client(tmp_path / "log", policy)
    with pytest.raises(ValueError, match=r"budgets\.jsonl is damaged"):
        budgets.begin(client.site, client.begin, [table], again=False)
    assert not (tmp_path / "log").exists()


@pytest.mark.hole
def test_a_sites_page_is_in_the_words_of_a_simulations(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """A data protection officer had a table of keys, multipliers and relations."""
    shown = join(dealt, 2, tmp_path / "north")
    assert shown.status == 0, shown
    page = tmp_path / "protection.html"
    ended = command("experiments.ledger", str(tmp_path / "north"), f"--page={page}")
    assert ended.status == 0, ended
    text = html.unescape(page.read_text())
    front = text.split("<details>")[0]
    for sentence in (
        "How one row of the site north is protected: ε = 3 promised",
        "helped by up to 2 clients that tell it all they know, and against up to 2",
        "At most 65 of 100 guesses are right",
        *("Is ε = 3 a reasonable choice?", "2,981", "So no score over all sites is"),
        "if the secure summation is broken and it sees each client's upload: ε = 4.463",
        "Clients that drop out and those that collude are together at most 2.",
        "Bounds, categories and classes of the schema were stated without a look at",
        "What is not covered</h2>",  # which a simulation's page alone said
        *("No ε covers the rows for the test.", "Knowledge of people in general."),
        *("Somebody with several rows is protected less", "Other releases of the"),
        *("0 of 3", "retention, erasure: "),
        spoken(tables.read_policy(dealt / "federation").agreement),
        # Neither the outcome nor a column stood there.
        "The model learns from 3 columns: radius, texture, concavity. It predicts the",
        "classes of “finding”: benign, malignant.",
    ):
        assert sentence in front, sentence
    conduct, seen_to = front.split("The program sees to it")
    assert "adds its share of the noise" in conduct  # by the other sites
    assert "adds its share" not in seen_to
    stated = "[5.0, 30.0]"
    assert f'units = "mm", bounds = {stated}' in text and stated not in front
    assert "z·Δ/√" in text and "z·Δ/√" not in front and "simulat" not in front
    assert "leave one record" not in front
    _, head, copied = text.partition("impact assessment (GDPR, art. 35)</summary>")
    assert head and "no legal advice" in copied
    copied = " ".join(copied.partition("</details>")[0].split())
    for sentence in (
        "the sum of all sites' uploads of each round, and the model; the number of",
        "(proved). Somebody who knows everything but one row guesses, at even odds",
        "a secure summation, which shows the server sums of all sites alone",
        "if the secure summation is broken and it sees each client's upload: ε = 4.463",
        "train nothing: whatever is computed of them stays at the site. Others see",
        "It does not protect the rows for the test.",
    ):
        assert sentence in copied, sentence
    conditions = re.findall(r"<ol start.*?</ol>", front)
    assert conditions and conditions == re.findall(r"<ol start.*?</ol>", copied)
    site = Site(tmp_path / "north")
    client = tables.table_client(site.path)
    assert str(client.num_examples) in front and "hospital-2" not in text


@pytest.mark.hole
def test_a_page_counts_all_logs_of_the_records(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The officer read ε = 3, though `join --again` had begun a second log."""
    table, page = tmp_path / "own.csv", tmp_path / "protection.html"
    table.write_bytes((dealt / "hospital-1.csv").read_bytes() + b"\n")
    for name in ("east", "west"):
        assert proposed(dealt, tmp_path / f"of-{name}").status == 0
        words = ("join", str(tmp_path / f"of-{name}"), f"--records={table}", "--again")
        ended = command("experiments.site", *words, f"--log={tmp_path / name}")
        assert ended.status == 0, ended
    shown = command("experiments.ledger", str(tmp_path / "east"), f"--page={page}")
    text = html.unescape(page.read_text())
    for words_of_both in (shown.stdout, text):
        assert f"by the log {tmp_path / 'west'}; ε" in words_of_both
        assert f"by the log {tmp_path / 'east'}; in all ε = 6 at δ = 2" in words_of_both
    assert "the site east is protected: ε = 6 promised" in text
    # Of twice the precision: ε = 6 of both alone would give 100.
    assert "At most 70 of 100 guesses are right" in text


@pytest.mark.hole
def test_a_ledger_asks_the_witness_with_which_its_log_was_begun(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It said that nobody knows whether entries are missing, and `join` nothing."""
    warned = join(dealt, 1, tmp_path / "beside")
    assert "warning: the witness" in warned.stdout and "beside the log" in warned.stdout
    witness = f"--witness={tmp_path / 'elsewhere'}"
    elsewhere = join(dealt, 2, tmp_path / "log", witness)
    assert "warning: the witness" not in elsewhere.stdout and not elsewhere.status
    shown = command("experiments.ledger", str(tmp_path / "log"))
    assert shown.status == 0 and "verdict: in order\n" in shown.stdout, shown
    (tmp_path / "elsewhere" / "log.seen.json").unlink()
    shown = command("experiments.ledger", str(tmp_path / "log"))
    assert shown.status == 1 and "log.seen.json is missing" in shown.stdout, shown


@pytest.mark.hole
def test_a_federations_model_carries_the_promise_of_its_sites(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Its claims were []."""
    server = tables.server_client(dealt / "federation")
    file = tmp_path / "model.safetensors"
    server.trained_model(server.initial_arrays, 1).save(file)
    (claim,) = run.load_model(file).claims
    promise = server.policy.says()
    for name in ("adversary", "relation", "status"):
        assert claim[name] == promise[name]
    assert (claim["epsilon"], claim["delta"]) == (3.0, 1e-5)
    assert claim["method"] == "promise by pld" and claim["proved"]


def test_a_federations_model_has_odds_ratios(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """`report` asked the coordinator's folder for a config.json, so nobody had any."""
    server = tables.server_client(dealt / "federation")
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=leaf.shape).astype(np.float32) for leaf in server.initial_arrays
    ]
    model = dataclasses.replace(
        server.trained_model(arrays, 1), schema=server.policy.training.declared()
    )
    file = tmp_path / "model.safetensors"
    model.save(file)
    ended = command("experiments.report", str(file))
    assert ended.status == 0, ended
    *sentences, path = ended.stdout.splitlines()
    assert "and are no estimates of effects. Clipping and few" in " ".join(sentences)
    assert path == str(tmp_path / "coefficients.csv")
    text = (tmp_path / "coefficients.csv").read_text()
    rows = [*csv.DictReader(text.splitlines())]
    low, high = np.full((1, 3), -1, np.float32), np.ones((1, 3), np.float32)
    base = special.logit(model.probabilities(low)[0, 1])
    assert float(rows[0]["log_odds"]) == pytest.approx(base, abs=1e-4)
    for place, row in enumerate(rows[1:]):
        changed = np.where(np.arange(3) == place, high, low)
        odds = special.logit(model.probabilities(changed)[0, 1]) - base
        assert float(row["log_odds"]) == pytest.approx(odds, abs=1e-4)
    assert [row["column"] for row in rows[1:]] == ["radius", "texture", "concavity"]
    assert rows[1]["class"] == "malignant" and rows[1]["step"] == "1 mm more"
    private = [value for row in rows for name, value in row.items() if "_se" in name]
    assert {*private} == {""}  # nobody but the rows' owners could know them
    dataclasses.replace(model, schema=None).save(file)
    refused = command("experiments.report", str(file))
    assert refused.status == 2 and "has no odds ratios: only a" in refused.stderr


@pytest.mark.hole
def test_a_page_of_a_log_that_is_not_in_order_promises_nothing(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    log, page = tmp_path / "south", tmp_path / "page.html"
    assert join(dealt, 2, log).status == 0
    flags = ("--site_key=00", f"--page={page}")
    assert command("experiments.ledger", str(log), *flags).status == 1
    text = html.unescape(page.read_text())
    assert "<h1>Ledger of the site south: not in order</h1>" in text
    before, listed, _ = text.partition("signed by another key")  # ahead of all else
    assert listed and before.count("<h2") == 1
    assert "of 100 guesses" not in text


@pytest.mark.hole
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("propose F --min_num_examples=3", "read --min_num_examples: remove it"),
        ("propose F --data_dir=x --again", "read --again and --data_dir: remove it"),
        ("join F --num_rounds=3 --colluders=2", "read --colluders and --num_rounds"),
        ("test F --records=x", "site test does not read --records: remove it"),
        ("node --total_epsilon=3", "site node does not read --total_epsilon"),
        ("init --max_num_examples=3", "init does not read --max_num_examples"),
        ("init --accept_units", "site init does not read --accept_units: remove it"),
    ],
)
def test_a_flag_of_another_verb_is_refused(line: str, sentence: str) -> None:
    """All but what a verb needs was taken, and read by nobody."""
    needs = {
        "propose": f"--schema=s --num_clients=4 {' '.join(COUNTS)}",
        "join": "--records=r --log=l",
        "test": "--log=l",
        "node": "--log=l",
        "init": "--log=l --num_examples=3 --min_num_examples=3",
    }
    words = f"{line} {needs[line.split()[0]]}".split()
    assert_sentence(command("experiments.site", *words), sentence)


def test_the_help_names_what_each_verb_reads() -> None:
    text = command("experiments.site", "--help").stdout
    for line in (
        "fedsvp site join FOLDER --records=TABLE --log=FILE [--witness=FOLDER] [--aga",
        "fedsvp site test MODEL --log=FILE [--witness=FOLDER]",
    ):
        assert line in text


@pytest.mark.hole
def test_a_node_that_cannot_answer_says_so_at_its_start(
    tmp_path: pathlib.Path,
) -> None:
    """A wrong path was shown at the server alone, with the verb `init`."""
    ended = command("experiments.site", "node", f"--log={tmp_path / 'absent'}")
    assert ended.stdout.startswith("Reading log and table; then waiting for the server")
    assert_sentence(ended, "absent: was fedsvp site join (or init) refused, or never")
    ended = command("experiments.site", "node", "--log=l", "--superlink", "s:9092")
    assert_sentence(ended, "flag 'superlink'; Flower’s own flags follow --")


@pytest.mark.hole
def test_a_node_without_flower_says_what_to_install(
    dealt: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was: No such file or directory."""
    assert join(dealt, 0, tmp_path / "log").status == 0
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = command("experiments.site", "node", f"--log={tmp_path / 'log'}")
    assert_sentence(ended, "pip install 'fedsvp_jax[flower]'")


@pytest.mark.hole
@pytest.mark.parametrize("taken", [True, False])
def test_a_node_that_is_stopped_or_has_no_port_says_so_in_a_sentence(
    taken: bool,
    dealt: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A port that was taken was a traceback every ten seconds, and a stopped node
    named --resume, which no site reads.
    """
    assert join(dealt, 0, tmp_path / "log").status == 0
    script = tmp_path / "flower-supernode"
    script.write_text("#!/bin/sh\nkill -INT $PPID; exec sleep 5\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not taken:
            server.close()
        words = ("node", f"--log={tmp_path / 'log'}", "--", "--port", str(port))
        ended = typed("experiments.site", *words)
    if taken:
        assert_sentence(ended, f"port {port} of this machine is taken")
        assert "end an earlier node of this log by kill NUMBER, first" in ended.stderr
    else:
        assert (ended.status, ended.stderr) == (130, "error: stopped by SIGINT\n")


def running(words: str) -> list[int]:
    """The processes whose command lines hold these words."""
    pids = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended
            if words.encode() in path.read_bytes().replace(b"\0", b" "):
                pids.append(int(path.parent.name))
    return pids


@pytest.mark.hole
@pytest.mark.skipif(sys.platform != "linux", reason="of Linux alone")
@pytest.mark.parametrize("real", [False, True])
def test_flowers_processes_end_with_the_node_that_is_killed(
    real: bool,
    dealt: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After `kill -9` of the node's number they went on answering and spending ε."""
    assert join(dealt, 0, tmp_path / "log").status == 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    child = f'--node-config log="{tmp_path / "log"}"'
    if real:
        pytest.importorskip("flwr")
        monkeypatch.setenv("PATH", str(pathlib.Path(sys.executable).parent), ":")
        children = [child, f"--runtime-api-address 127.0.0.1:{port}"]
    else:
        script = tmp_path / "flower-supernode"
        script.write_text("#!/bin/sh\nwhile :; do sleep 0.1; done\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), ":")
        children = [child]
    words = ("node", f"--log={tmp_path / 'log'}", "--", "--insecure")
    far = ("--superlink", "127.0.0.1:1", "--port", str(port))
    with start("experiments.site", *words, *far) as process:
        try:
            wait_until(lambda: all(map(running, children)))
        finally:
            process.kill()
    try:
        wait_until(lambda: not any(map(running, children)), seconds=20)
    finally:
        for words_of_one in children:
            for pid in running(words_of_one):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.hole
def test_a_node_starts_again_where_it_ends(
    dealt: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hospital's node was gone after a crash of the server."""
    assert join(dealt, 0, tmp_path / "log").status == 0
    script, starts = tmp_path / "flower-supernode", tmp_path / "starts"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {starts}\n'
        f"[ $(wc -l < {starts}) -lt 3 ] && exit 1\nexit 2\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    code = "import experiments.site as site; site._PAUSE = 0.01; "
    code += "from absl import flags; from experiments import command; "
    code += (
        "command.define_settings(); command.run(site.main, '', takes_arguments=True)"
    )
    words = ("node", f"--log={tmp_path / 'log'}", "--", "--superlink", "here:9092")
    ended = typed(code, *words, how="-c")
    assert ended.status == 0 and ended.stdout.count("The node ended.") == 2, ended
    assert "lack this node's key: flwr supernode register node.pub" in ended.stdout
    assert "rounds charged: 0 of 3" in ended.stdout
    lines = starts.read_text().splitlines()
    log, witness = tmp_path / "log", tmp_path / "witness"
    line = f'--superlink here:9092 --node-config log="{log}" witness="{witness}"'
    assert lines == [line] * 3


def test_a_model_is_scored_on_the_rows_that_did_not_train(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    place = dealt / "federation"
    assert join(dealt, 0, tmp_path / "log").status == 0
    client = tables.table_client(tmp_path / "log")
    server = tables.server_client(place)
    schema = server.policy.training.declared()
    model = server.trained_model(server.initial_arrays, 0)
    dataclasses.replace(model, schema=schema).save(tmp_path / "model.safetensors")
    told = (str(tmp_path / "model.safetensors"), f"--log={tmp_path / 'log'}")
    shown = command("experiments.site", "test", *told)
    assert shown.status == 0 and "AUC" in shown.stdout, shown
    assert "stay with you" in shown.stdout
    own = tmp_path / "own.csv"
    own.write_bytes((dealt / "hospital-1.csv").read_bytes())
    words = ("join", str(place), f"--records={own}", f"--log={tmp_path / 'own'}")
    assert command("experiments.site", *words).status == 0
    own.write_bytes((dealt / "hospital-3.csv").read_bytes())
    told = (told[0], f"--log={tmp_path / 'own'}")
    refused = command("experiments.site", "test", *told)
    assert_sentence(refused, "the records are not those with which own was begun")
    rows = loading.load_dataset(client.policy.training).test_labels
    assert len(rows) + client.num_examples == len(rows_of(dealt / "hospital-0.csv"))


@pytest.mark.hole
def test_a_model_that_ranks_the_wrong_way_round_asks_for_swapped_classes(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """A site whose 0 and 1 were the other way round had an AUC below 1/2, no more."""
    assert join(dealt, 2, tmp_path / "log").status == 0
    client = tables.table_client(tmp_path / "log")
    rows = tables.table_rows(client.policy)
    along = (rows.train_labels - rows.train_labels.mean()) @ rows.train_inputs
    schema, file = client.policy.training.declared(), tmp_path / "model.safetensors"
    for sign in (1, -1):
        weights = np.float32(sign * np.stack([-along, along]))
        arrays = [
            weights if leaf.shape == weights.shape else leaf
            for leaf in client.initial_arrays
        ]
        model = client.trained_model(arrays, 1)
        dataclasses.replace(model, schema=schema).save(file)
        words = ("experiments.site", "test", str(file), f"--log={tmp_path / 'log'}")
        said = command(*words).stdout
        asked = f"ranks your {client.num_examples} rows that trained the wrong way rou"
        assert (asked in said) == (sign < 0) and "AUC" in said
        assert said.count("keep them to yourself") == 1


@pytest.mark.hole
def test_the_model_of_another_federation_is_not_scored(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It was, where it had as many features, and so was a simulation's."""
    assert proposed(dealt, tmp_path / "other", "--learning_rate=1").status == 0
    assert join(dealt, 0, tmp_path / "log").status == 0
    server = tables.server_client(tmp_path / "other")
    model = server.trained_model(server.initial_arrays, 0)
    schema, settings = server.policy.training.declared(), dict(model.settings)
    for name in ("other", "simulated"):
        file = tmp_path / f"{name}.safetensors"
        dataclasses.replace(model, schema=schema, settings=settings).save(file)
        ended = command(
            "experiments.site", "test", str(file), f"--log={tmp_path / 'log'}"
        )
        assert_sentence(ended, "is not of the federation that")
        settings.pop("agreement", None)


@pytest.mark.hole
def test_what_a_log_was_begun_with_decides(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Another table or schema is not gone on with; another proposal is noticed."""
    place, table = tmp_path / "federation", tmp_path / "own.csv"
    assert proposed(dealt, place, "--learning_rate=1").status == 0
    other = tables.read_policy(dealt / "federation").agreement
    assert tables.read_policy(place).agreement != other
    table.write_bytes((dealt / "hospital-2.csv").read_bytes())
    client = tables.table_client(tmp_path / "log", tables.read_policy(place, table))
    client.begin()
    schema, agreed = (place / "schema.toml").read_text(), client.policy.agreement
    (place / "schema.toml").write_text(schema.replace("[5.0, 30.0]", "[5.0, 31.0]"))
    assert Site(tmp_path / "log").policy.agreement != agreed
    with pytest.raises(ValueError, match="the records are not those"):
        tables.table_client(tmp_path / "log").site.read()
    (place / "schema.toml").write_text(schema)
    tables.table_client(tmp_path / "log").site.read()
    table.write_bytes((dealt / "hospital-3.csv").read_bytes())
    with pytest.raises(ValueError, match="the records are not those"):
        tables.table_client(tmp_path / "log").site.read()


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--noise_trust=nobody", "noise_trust must be secure_aggregation"),
        ("--max_num_examples=0", "state --max_num_examples"),
        ("--num_examples=1000", "num_examples must be those of all 4 sites together"),
        ("--colluders=4", "colluders must be fewer than cohort_size"),
        ("--num_clients=2 --max_num_examples=230", "a secure sum needs 3 to 255"),
        ("--num_clients=300", "a secure sum needs 3 to 255 hospitals"),
    ],
)
def test_a_proposal_that_cannot_be_kept_is_one_sentence(
    flag: str, sentence: str, dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert_sentence(proposed(dealt, tmp_path / "federation", *flag.split()), sentence)
    assert not (tmp_path / "federation").exists()


def test_the_folder_holds_no_code_and_no_place_of_the_coordinators_records(
    dealt: pathlib.Path,
) -> None:
    place = dealt / "federation"
    names = ["pyproject.toml", "schema.toml", "settings.json"]
    assert sorted(path.name for path in place.iterdir()) == names
    app = tomllib.loads((place / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    for reference in app["components"].values():
        assert reference.startswith("fedsvp_jax.deploy.flower_tables:")
    assert "data_dir" not in json.loads((place / "settings.json").read_text())["config"]


@pytest.mark.parametrize(
    "changes",
    [
        {"noise_trust": "nobody"},
        {"noise_sampler": "gaussian"},
        {"mechanism": "none"},
        {"clipping": "paper"},
        {"noise_multiplier": -1.0},
        {"l2_norm_clip": -1.0},
        {"l2_norm_clip": float("inf")},
        {"colluders": HOSPITALS},
        {"colluders": 0},
        {"local_steps": 2},
        {"total_accounting": "basic"},
        {"target_delta": 0.9, "delta": 0.9},
        {"plugin": "/tmp/code.py"},
        {"noise_examples_scale": 1e6},
        {"epsilon": 8.0},
        {"total_epsilon": None},
    ],
    ids=str,
)
def test_a_coordinators_folder_that_was_edited_is_refused(
    changes: dict[str, Any], dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """`join` trusts nothing that `propose` has checked."""
    with pytest.raises((ValueError, Refused)):
        edited(dealt, tmp_path, changes)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 7, "paired_noise": True},
        {"noise_multiplier": 0.0},
        {"epsilon": 2.0},
        {"num_rounds": 10**6},
        {"l2_norm_clip": 1e6},
        {"class_weights": "1000000.0,1.0"},
        {"data_dir": "/etc"},
    ],
    ids=str,
)
def test_an_edited_folder_that_is_taken_keeps_the_promise(
    changes: dict[str, Any], dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Its noise is secret, and the rounds that are answered cost ε = 3 at most."""
    client = edited(dealt, tmp_path, changes)
    policy = client.policy
    assert client.site.randomness.hides and policy.account.proved
    assert policy.settings()["total_epsilon"] == 3.0
    uploads, cost = policy.config.num_rounds, int(policy.allowance.costs[0])
    if cost:  # not all rounds can be answered
        uploads = int(policy.allowance.budget) // cost
    multiplier = policy.costliest(1)["noise_multiplier"]
    mu = uploads**0.5 / multiplier  # of one Gaussian (Balle and Wang 2018)
    far = math.exp(3) * stats.norm.cdf(-mu / 2 - 3 / mu)
    assert stats.norm.cdf(mu / 2 - 3 / mu) - far <= 1e-5 * (1 + 1e-5)


def edited(dealt: pathlib.Path, place: pathlib.Path, changes: dict[str, Any]) -> Client:
    """A hospital that joined from a folder whose settings somebody changed."""
    shutil.copytree(dealt / "federation", place / "federation")
    file = place / "federation" / "settings.json"
    settings = json.loads(file.read_text())
    settings["config"] |= changes
    file.write_text(json.dumps(settings))
    policy = tables.read_policy(place / "federation", dealt / "hospital-1.csv")
    _ = policy.protocol
    client = tables.table_client(place / "log", policy)
    client.begin()
    return client


@pytest.mark.hole
def test_a_page_of_several_logs_is_against_whom_all_of_them_promise_it(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It said "even if 3 clients …", of a sum that holds against 1, and two ε of one
    count of test rows; and lacked conditions that a simulation's page has.
    """
    table, page = tmp_path / "own.csv", tmp_path / "protection.html"
    table.write_bytes((dealt / "hospital-1.csv").read_bytes() + b"\n\n")
    for number in (1, 3):
        place, log = tmp_path / f"of-{number}", tmp_path / str(number)
        flags = (f"--colluders={number}", "--publish_scores")
        ended = proposed(dealt, place, *flags)
        assert ended.status == 0, ended
        gains = "The same holds if the secure summation is broken" not in ended.stdout
        assert gains == (number < HOSPITALS - 1)
        words = ("join", str(place), f"--records={table}", "--again", f"--log={log}")
        ended = command("experiments.site", *words)
        assert ended.status == 0, ended
    whom = "the server, which sees sums alone, helped by one client that tells it all "
    whom += "it knows"
    added = "ε = 6 at δ = 2e-05 (proved), against the weakest adversary of these logs: "
    added += whom
    assert added in ended.stdout
    for number in (1, 3):
        shown = command(
            "experiments.ledger", str(tmp_path / str(number)), f"--page={page}"
        )
        text = " ".join(html.unescape(page.read_text()).split())
        assert shown.status == 0 and added in shown.stdout and added in text
        front, details = text.split('<section id="details"')
        assert f"Against {whom}, and against any one other client: ε = 6" in front
        assert "3 clients" not in text and "3 other clients" not in text
        copied = details.partition("art. 35)")[2]
        for part in (front, copied):
            assert "together are at most" not in part
            for condition in (
                "that drop out and those that collude are together at most 1.",
                "Connections are encrypted, and the server keeps to the protocol: it",
                "The other clients run this program unchanged, so that their noise is",
                "Clients that work together know one another's noise.",
            ):
                assert part.count(condition) == 1, condition
        assert "Is ε = 6, of all logs together, a reasonable choice?" in front
        # Both ended on "It does not protect the rows for the test".
        for part in (front, copied):
            assert (
                "Test rows: ε = 3 by one count of scores, which is still to come; by "
                "all logs together ε = 6 at most, whether a log trains with the row or "
                "counts it. Of 100 guesses about a row for the test, at most 70 are "
            ) in part
            assert "does not protect the rows for the test" not in part
            assert "Rows for the test have their own promise, above" in part
        assert "Its rows for the test, whose number its log does not hold" in copied
        assert "they are counted once, with noise. Others see" in copied
        assert (
            "as all rounds of this log together cost a row that trains: ε = 3" in front
        )
