"""Tables of text for a terminal: their width, lines and notes."""

import pytest

from fedsvp_jax.report import text_table

ROWS = [
    {"mechanism": "`nbafl`", "bound of |D|": "1", "verdict": "holds"},
    {"mechanism": "`fedsva`", "bound of |D|": "20", "verdict": "**VIOLATED**"},
]


def test_columns_are_aligned() -> None:
    lines = text_table.aligned(ROWS).splitlines()
    assert lines[0] == "mechanism   bound of |D|    verdict"
    assert lines[2:] == [
        "nbafl                  1      holds",
        "fedsva                20   VIOLATED",
    ]
    assert text_table.render([]) == "Not measured yet."


def test_a_narrow_terminal_breaks_lines_and_loses_no_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    rows = [{"mechanism": "nbafl", "a long head of a column": "0123456789abcdef"}]
    lines = text_table.aligned(rows).splitlines()
    assert max(map(len, lines)) <= 20
    letters = "".join("".join(lines).split())
    assert sorted(set("0123456789abcdef")) == sorted(
        set(letters) & set("0123456789abcdef")
    )


@pytest.mark.hole
def test_no_word_is_broken_where_no_terminal_says_its_width(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file had 100 columns, and the audit's words were broken into letters."""
    monkeypatch.delenv("COLUMNS", raising=False)
    names = [f"a long head of column {number}" for number in range(12)]
    long = "runs/a_folder_of_a_long_name/model"
    rows = [dict.fromkeys(names, f"honest-but-curious clients, 1 colluding: {long}")]
    lines = text_table.aligned(rows).splitlines()
    words = [word for line in lines for word in line.split()]
    assert {words.count(w) for w in ("honest-but-curious", "column", long)} == {12}


def test_what_all_rows_say_at_length_stands_below() -> None:
    rows = [{"name": str(n), "against": "a server that sees uploads"} for n in range(2)]
    table, shared = text_table.render(rows).split("\n\n")
    assert shared == "against: a server that sees uploads."
    assert "against" not in table


@pytest.mark.hole
def test_a_table_fits_100_columns_its_cells_start_at_the_top_and_numbers_are_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row took six lines, and its words stood above its name."""
    monkeypatch.delenv("COLUMNS", raising=False)
    whom = [f"adversary {n} (neighbours: replace one record of a client)" for n in "ab"]
    rows = [
        {
            "mechanism": name,
            "a column whose head is long, " * 3: "71.2 (69.8 to 72.6)",
            "against": whom[name == "c"],
            "status": "proved",
            "the words of each row differ": f"{name} " * 40,
        }
        for name in "abc"
    ]
    text, notes = text_table.render(rows).split("\n\n")
    assert max(map(len, text.splitlines())) <= 100
    first = next(line for line in text.splitlines() if line.startswith("a "))
    assert "71.2 (69.8 to 72.6)" in first and first.split()[6] == "proved"
    assert [line.split()[5] for line in text.splitlines() if "71.2" in line] == [
        "[1]",
        "[1]",
        "[2]",
    ]
    assert notes == f"[1] against: {whom[0]}.\n[2] against: {whom[1]}."
