"""experiments.train as a user types it, and `kill -9`."""

import pathlib
import re
import time
import types

import numpy as np
import pytest
from commands import (
    SMALL_RUN,
    assert_same_bytes,
    command,
    start,
    succeeds,
)

from experiments import messages
from fedsvp_jax.data.tables import encoding, table_file
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn
from fedsvp_jax.data.tables.table import from_table


def arguments(folder: pathlib.Path) -> tuple[str, ...]:
    return (
        "experiments.train",
        *SMALL_RUN,
        "--mechanism=nbafl",
        "--num_rounds=40",
        f"--output_dir={folder}",
        "--rounds_per_call=1",
        "--checkpoint_every=3",
        "--noreport",
    )


def test_a_killed_run_resumes_to_the_same_bytes_as_an_uninterrupted_one(
    tmp_path: pathlib.Path,
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    succeeds(*arguments(whole))
    with start(*arguments(folder)) as process:
        deadline = time.monotonic() + 600
        while not (folder / "checkpoints" / "6").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    assert not (folder / "summary.json").exists()
    resumed = succeeds(*arguments(folder), "--resume").stderr
    assert re.search(r"warning: goes on at round \d+ of \d+\n", resumed), resumed
    assert_same_bytes(folder, whole)


def test_the_result_stands_first_and_every_weaker_claim_below_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One paragraph mixed verdict, ε, a broken sum and advice, in lines of 300."""
    row = {"adversary": "server", "relation": "replace one record of a client"}
    row |= {"method": "rdp", "epsilon": 3.0, "delta": 1e-5, "status": "proved"}
    row |= {"assumptions": "secure aggregation shows the sum"}
    broken = row | {"epsilon": 40.0, "adversary": "postman"}
    bare = row | {"method": "none", "epsilon": None, "adversary": "milkman"}
    summary = {"guarantees": [row, broken, bare], "relation": row["relation"]}
    summary |= {"adversary": "server", "stopped_by": None, "params_sha256": "ab"}
    summary |= {"status": {"rdp": "proved"}, "test_scores": {"auc": 0.7}}
    config = {"clipping": "per_example", "num_clients": 4, "influence_filter": "none"}
    config |= {"mechanism": "gaussian", "total_epsilon": 3.0, "secret_noise": True}
    monkeypatch.chdir(tmp_path)
    pathlib.Path("DIR").mkdir()
    text = messages.filled(
        "train.txt",
        config=types.SimpleNamespace(**config),
        filter_cost=None,
        goal="proved",
        summary=summary,
        sentences={
            **{"quality": "Better. Right more often.", "privacy": "Against x: y"},
            **{"published": "", "together": "Beside.", "details": "Shares."},
            **{"unprotected": "No ε covers 3 rows.", "alone": "", "leak": ""},
        },
        place=pathlib.Path("DIR"),
    )
    first, notes = text.split("\nWarnings and notes:\n")
    assert first.startswith("Better.\nRight more often.\nAgainst the server")
    assert "ε = 3 at δ = 1e-05" in first and "guesses are right" in first
    assert "postman" not in first and "milkman" not in first
    for note in (
        "Against postman: ε = 40, which promises no protection.",
        "Against milkman: nothing is hidden.",
        *("Beside.", "No ε covers 3 rows.", "All clients were simulated"),
        "What the claim rests on, and more: DIR/report.html",
    ):
        assert f"\n- {note}" in "\n" + notes, note
    assert max(map(len, (first + notes.split("fedsvp sweep")[0]).split("\n"))) <= 100


@pytest.mark.hole
def test_train_refuses_the_tables_that_a_site_could_not_join_with(
    tmp_path: pathlib.Path,
) -> None:
    """A warning scrolled away, and one hospital's swapped classes spoilt the model."""
    schema = tmp_path / "s.toml"
    schema.write_text(
        'schema = 1\n[label]\ncolumn = "ill"\nclasses = ["no", "yes"]\n'
        'shares = [0.8, 0.2]\n[client]\ncolumn = "ward"\n[columns.age]\n'
        'type = "number"\nbounds = [0, 100]\n'
    )
    data, run = tmp_path / "a.csv", tmp_path / "run"
    line = ("experiments.train", f"--data={data}", f"--schema={schema}")
    line += ("--goal=proved", "--total_epsilon=8", "--num_rounds=1", "--noreport")
    line += (f"--output_dir={run}", "--noreference")

    def write(scale: int, ill: str, well: str) -> None:
        """Sixty rows of each of three wards, of which these are Bern's."""
        rows = ["ward,age,ill,note", "G,101,no,x"]  # a cell is clamped
        for n in range(60):
            health = "no" if n % 5 else "yes"
            rows += [f"{ward},{n},{health},x" for ward in ("Chur", "G")]
            rows += [f"Bern,{scale * n},{well if n % 5 else ill},x"]
        data.write_text("\n".join(rows))

    write(1, "no", "yes")
    swapped = "error: the shares of the schema fit Bern far better in another order: "
    remedy = "classes are right, train with --accept_units. This looked at the rows: ke"
    for message in (swapped, remedy):
        assert message in command(*line).stderr
    assert command(*line).status == 2 and not run.exists()
    accepted = command(*line, "--accept_units")
    assert accepted.status == 0 and run.exists()
    printed = " ".join(accepted.stdout.split())
    # Every export has such columns: who answers for each learns to skip the line. Nor
    # is one clamped cell a warning: all lines were counted.
    assert "column age: 1 of 181 cells are clamped to its bounds" in printed
    assert "- Answer the 1 warning about the rows first" in printed
    assert "- Note: columns that the schema does not name are ignored: note." in printed
    write(4, "yes", "no")  # 35 of 181 cells, 34 of them Bern's
    for message in ("error: column age: 35 of 181 cells are clamped", remedy):
        assert message in command(*line).stderr
    write(1, "yes", "no")
    published = (f"--output_dir={tmp_path / 'b'}", "--publish_scores")
    ended = command(*line, *published, "--publish_columns")
    assert "--accept_units" not in ended.stderr
    # The command that it prints ended in a refusal of a sweep's scores.
    printed = ended.stdout.split("fedsvp sweep ")[1].split("DIR")[0].split()
    words = [word for word in printed if not word.startswith(("--seeds", "--output"))]
    sweep = command(
        "experiments.sweep", *words, "--seeds=0:1", f"--output_dir={tmp_path / 'many'}"
    )
    assert sweep.status == 0, sweep


@pytest.mark.parametrize("verb", ["join", "train"])
def test_a_tenth_of_other_codes_is_refused_where_a_table_joins(verb: str) -> None:
    """Of a column of categories the half was none of them, and joined."""
    sex = SchemaColumn("category", values=("m", "w", "*"))
    schema = Schema({"sex": sex}, "ill", ("no", "yes"))
    for rows, cells in ((200, 20), (200, 21), (10, 4), (10, 5), (10, 6)):
        table = {"sex": ["0"] * cells + ["m"] * (rows - cells), "ill": ["no", "yes"]}
        table["ill"] *= rows // 2
        data = from_table(table, schema=schema)
        text = messages.filled("misfits.txt", verb=verb, rows=data, schema=schema)
        refused = cells in (5, 6, 21) if verb == "join" else cells == 6
        assert bool(text) == refused, text
        assert not text or "has the file other codes than the schema?" in text


@pytest.mark.parametrize(
    ("bounds", "codes", "cause"),
    [
        (
            (1, 2),
            (0, 1),
            "other codes than the schema, whose bounds are 1 and 2, such as 0 and 1",
        ),
        ((1, 2), (2, 3), "bounds are 1 and 2, such as 2 and 3 for 1 and 2? If these"),
        ((1, 2), (1, 9), "other codes than the schema, whose bounds are 1 and 2? If"),
        ((1, 60), (0, 9), "other codes than the schema, whose bounds are 1 and 60? If"),
    ],
)
def test_cells_that_are_too_many_for_a_missing_one_may_be_other_codes(
    bounds: tuple[float, float], codes: tuple[int, int], cause: str
) -> None:
    """Of sex as 0 and 1 for 1 and 2, "0" was asked of as a code for a missing one."""
    schema = Schema({"sex": SchemaColumn("number", bounds)}, "ill", ("no", "yes"))
    table = {"sex": [*codes] * 100, "ill": ["no", "yes"] * 100}
    data = from_table(table, schema=schema)
    text = messages.filled("misfits.txt", verb="join", rows=data, schema=schema)
    assert cause in text and "a code for a missing one?" not in text
    table["sex"] = [*bounds] * 97 + [bounds[0]] * 3 + [9 + 90 * (bounds[1] > 9)] * 3
    table["ill"] = ["no", "yes"] * 100
    data = from_table(table, schema=schema)
    text = messages.filled("misfits.txt", verb="join", rows=data, schema=schema)
    assert "a code for a missing one? then leave them blank" in text


@pytest.mark.parametrize("verb", ["join", "train", "predict"])
def test_a_rare_condition_in_other_codes_is_refused_at_any_share(verb: str) -> None:
    """A hospital's 1 and 2 for 0 and 1 were "9 of 570 cells clamped": all had it."""
    schema = Schema({"mgus": SchemaColumn("number", (0, 1))}, "ill", ("no", "yes"))
    for cells, wrong in (
        ([0, 1] * 10_000 + [1] * 561 + [2] * 9, '9 of 20570 cells are "2", beyond'),
        ([1, 2, 9, 9] * 5, '5 of 20 cells are "2", beyond its bounds'),
        ([-1] + [0, 1] * 20, '1 of 41 cells are "-1", beyond its bounds'),
        ([0.5, 0.9, 1.0, 1.2] + [0.6] * 100 + [2.0], ""),  # fractions, as of a ratio
    ):
        table = {"mgus": cells, "ill": np.resize(["no", "yes"], len(cells))}
        rows = from_table(table, schema=schema)
        text = messages.filled("misfits.txt", verb=verb, rows=rows, schema=schema)
        assert wrong in text and bool(text) == bool(wrong), text
        shifted = "0 and 1, such as 1 and 2 for 0 and 1? If these cells mean"
        assert '"2"' not in wrong or shifted in text


@pytest.mark.parametrize(("verb", "few"), [("join", True), ("train", False)])
def test_a_large_table_is_trained_on_with_a_cell_in_a_thousand_that_may_be_a_code(
    verb: str, few: bool
) -> None:
    """4 of HI's 22,272 people have an experience of -1 year."""
    schema = Schema(
        {"age": SchemaColumn("number", bounds=(0, 99), fill=50)}, "ill", ("no", "yes")
    )
    for number, refused in ((2, few), (3, True)):
        age = np.arange(2000.0) % 99
        age[:number] = -9
        rows = from_table({"age": age, "ill": ["no", "yes"] * 1000}, schema=schema)
        text = messages.filled("misfits.txt", verb=verb, rows=rows, schema=schema)
        assert (f'{number} of 2000 cells are "-9"' in text) == refused, text


@pytest.mark.parametrize("verb", ["join", "train", "predict"])
def test_one_date_far_beyond_the_bounds_is_a_code_as_a_number_is(verb: str) -> None:
    """01.01.1900 in 40 of 600 cells was "clamped" with a warning; -9 was refused."""
    bounds = (16_436.0, 19_357.0)  # 2015-01-01 to 2022-12-31
    schema = Schema({"seen": SchemaColumn("date", bounds)}, "ill", ("no", "yes"))
    usual = [f"{1 + n % 28}.{1 + n % 12}.{2015 + n % 8}" for n in range(100)]
    code = 'cells are "1900-01-01", beyond its bounds and clamped, in row 1'
    for dates, wrong in (
        (["01.01.1900"] * 7 + ["3.4.2014"] * 3, f"7 of 100 {code}"),
        (["1900-01-01"] * 45, f"45 of 100 {code}"),
        (["31.12.2099"] * 3 + ["1.1.1900"], '3 of 100 cells are "2099-12-31", beyond'),
        (["4.1.2023"] * 2 + ["5.1.2023"], ""),  # of the next year
        (["4.1.1925", "5.2.1926", "5.2.1926", "6.3.1927"], ""),
    ):
        table = {"seen": dates + usual[len(dates) :], "ill": ["no", "yes"] * 50}
        columns = table_file.columns_of(table, "a")
        encoded = encoding.encode(schema, columns, "a", of_model=verb == "predict")
        text = messages.filled("misfits.txt", verb=verb, rows=encoded, schema=schema)
        assert wrong in text and bool(text) == bool(wrong), text
        many = "whose bounds are 2015-01-01 and 2022-12-31? If these cells mean"
        assert (many in text) == ("45 of" in wrong)
    seen = SchemaColumn("date", bounds, missing=("1900-01-01",), fill=17_000.0)
    table["seen"] = ["01.01.1900"] * 9 + usual[9:]
    columns = table_file.columns_of(table, "a")
    encoded = encoding.encode(Schema({"seen": seen}), columns, "a")
    assert encoded.changed_cells["seen"]["missing"].sum() == 9
