"""Tables of text: the same rows for a terminal, a Markdown page, a paper."""

from fedsvp_jax.report import text_table

ROWS = [
    {"mechanism": "`nbafl`", "bound of |D|": "1", "verdict": "holds"},
    {"mechanism": "`fedsva`", "bound of |D|": "20", "verdict": "**VIOLATED**"},
]


def test_a_terminal_gets_columns_of_equal_width_without_markdowns_marks() -> None:
    assert text_table.aligned(ROWS).splitlines() == [
        "mechanism  bound of |D|   verdict",
        "nbafl                 1     holds",
        "fedsva               20  VIOLATED",
    ]


def test_a_page_gets_markdown_and_an_empty_table_says_so() -> None:
    head, line, *body = text_table.markdown(ROWS).splitlines()
    assert head == "| mechanism | bound of \\|D\\| | verdict |"
    assert line == "| --- | --- | --- |"
    assert body[1] == "| `fedsva` | 20 | **VIOLATED** |"
    assert text_table.markdown([]) == text_table.MISSING


def test_a_paper_gets_a_booktabs_table_in_which_text_is_escaped() -> None:
    rows = [{"mechanism": "a_b & c", "ε at 5 %": "0.1 ± 0.2"}]
    assert text_table.shown(rows, "latex").splitlines() == [
        r"\begin{tabular}{lr}",
        r"  \toprule",
        r"  mechanism & $\varepsilon$ at 5 \% \\",
        r"  \midrule",
        r"  a\_b \& c & 0.1 $\pm$ 0.2 \\",
        r"  \bottomrule",
        r"\end{tabular}",
    ]


def test_a_table_that_is_wider_than_a_papers_column_is_turned_and_divided() -> None:
    names = ("mechanism", "ε", *(f"quantity number {n}" for n in range(5)))
    rows = [dict.fromkeys(names, f"value {n}") | {"ε": f"{n}"} for n in range(6)]
    tabulars = text_table.latex(rows).split("\n\n")
    assert len(tabulars) == 2
    for tabular, kept in zip(tabulars, (rows[:4], rows[4:]), strict=True):
        lines = tabular.splitlines()
        assert lines[0] == rf"\begin{{tabular}}{{l{'r' * len(kept)}}}"
        assert (
            lines[4]
            == " & ".join([r"  $\varepsilon$", *(row["ε"] for row in kept)]) + r" \\"
        )
        assert [line for line in lines if line.startswith("  quantity number 4 &")]
