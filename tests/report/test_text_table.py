"""Tables of text: the same rows for a terminal and a Markdown page."""

import pytest

from fedsvp_jax.report import text_table

ROWS = [
    {"mechanism": "`nbafl`", "bound of |D|": "1", "verdict": "holds"},
    {"mechanism": "`fedsva`", "bound of |D|": "20", "verdict": "**VIOLATED**"},
]


def test_a_terminal_gets_aligned_columns_and_a_page_markdown() -> None:
    lines = text_table.aligned(ROWS).splitlines()
    assert lines[0] == "mechanism   bound of |D|    verdict"
    assert lines[2:] == [
        "nbafl                  1      holds",
        "fedsva                20   VIOLATED",
    ]
    head, line, *body = text_table.markdown(ROWS).splitlines()
    assert head == "| mechanism | bound of \\|D\\| | verdict |"
    assert line == "| --- | --- | --- |"
    assert body[1] == "| `fedsva` | 20 | **VIOLATED** |"
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
    assert shared == "Against: a server that sees uploads."
    assert "against" not in table
