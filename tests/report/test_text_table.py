"""Tables of text: the same rows for a terminal, a Markdown page, a paper."""

from fedsvp_jax.report import text_table

ROWS = [
    {"mechanism": "`nbafl`", "bound of |D|": "1", "verdict": "holds"},
    {"mechanism": "`fedsva`", "bound of |D|": "20", "verdict": "**VIOLATED**"},
]


def test_a_terminal_gets_aligned_columns_and_a_page_markdown() -> None:
    assert text_table.aligned(ROWS).splitlines() == [
        "mechanism  bound of |D|   verdict",
        "nbafl                 1     holds",
        "fedsva               20  VIOLATED",
    ]
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


def test_a_wide_table_stays_one_and_says_below_it_what_all_rows_share() -> None:
    names = ("mechanism", *(f"quantity number {n}" for n in range(5)), "status")
    rows = [dict.fromkeys(names, f"value {n}") | {"status": "proved"} for n in range(6)]
    text = text_table.latex(rows)
    table, shared = text.split("\n\n")
    assert shared == "Status: proved."
    assert text.count(r"\begin{tabular}{lrrrrr}") == 1 and "resizebox" not in text
    assert r"\shortstack[r]{quantity\\number 0}" in table
    wide = [dict.fromkeys((f"q{n}" for n in range(20)), f"value {m}") for m in range(2)]
    scaled = text_table.latex(wide)
    assert scaled.startswith("\\resizebox{\\textwidth}{!}{%") and scaled[-1] == "}"
