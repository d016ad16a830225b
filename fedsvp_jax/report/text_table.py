"""Tables as text: for a terminal, for a Markdown page, and for a paper in LaTeX.

A table is a list of rows, and a row is what it shows by column: `{"ε": "0.2", …}`. All
rows of a table have the same columns in the same order.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence

from fedsvp_jax.run.files import printable

FORMATS = ("text", "markdown", "latex")
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    **{
        symbol: f"${command}$"
        for symbol, command in {
            "ε": r"\varepsilon",
            "δ": r"\delta",
            "σ": r"\sigma",
            "Σ": r"\Sigma",
            "±": r"\pm",
            "∞": r"\infty",
            "≥": r"\geq",
            "≤": r"\leq",
            "×": r"\times",
            "÷": r"\div",
            "→": r"\to",
            "μ": r"\mu",
            "η": r"\eta",
            "α": r"\alpha",
            "−": "-",
            "′": "'",
            "ψ": r"\psi",
        }.items()
    },
}
_BARE_BAR = re.compile(r"(?<!\\)\|")
MISSING = "Not measured yet.\n"
_COLUMN = 60  # characters of \\footnotesize in a column of 3.3 inches, about
_HEAD = 12  # characters of a line of a head
_LONG = 24  # characters of a cell that make a table hard to read
_PAGE = 120  # characters of \\footnotesize in a page of 7 inches, about

Row = Mapping[str, str]


def aligned(rows: Sequence[Row]) -> str:
    """Columns of equal width, without Markdown's marks: the first flush left.

    Heads have several lines where the table would be wider than a page.
    """
    body = [[printable(text.strip("*`")) for text in row.values()] for row in rows]
    heads = [[name] for name in rows[0]]
    if _width([[*rows[0]], *body]) > _PAGE:
        heads = [textwrap.wrap(name, _HEAD) for name in rows[0]]
    high = max(map(len, heads))
    above = [[""] * (high - len(head)) + head for head in heads]
    lines = [[*line] for line in zip(*above, strict=True)] + body
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.rjust(width) if column else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown(rows: Sequence[Row]) -> str:
    """A Markdown table, or a sentence where there are no rows."""
    if not rows:
        return MISSING
    lines = [[*rows[0]], ["---"] * len(rows[0]), *([*row.values()] for row in rows)]
    escaped = [[_BARE_BAR.sub(r"\|", text) for text in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def latex(rows: Sequence[Row]) -> str:
    """One `tabular` with the rules of LaTeX's package booktabs, the first column left.

    Text is escaped, and the symbols that our tables hold become commands of standard
    LaTeX; marks of Markdown are left out. A table that would be wider than a column has
    what all rows share in a line below it, and heads of several lines. One that would
    be wider than a page even so is scaled down (package graphicx).
    """
    plain: Sequence[Row]
    plain = [{key: text.strip("*`") for key, text in row.items()} for row in rows]
    told = ""
    if wide := _width([[*plain[0]], *([*row.values()] for row in plain)]) > _COLUMN:
        plain, told = without_shared(plain)
    body = [[*row.values()] for row in plain]
    heads = [textwrap.wrap(name, _HEAD) if wide else [name] for name in plain[0]]
    table = _tabular(heads, body)
    longest = [max(head, key=len) for head in heads]
    if _width([longest, *body]) > _PAGE:
        table = f"\\resizebox{{\\textwidth}}{{!}}{{%\n{table}}}"
    return table + (f"\n\n{_for_latex(told)}" if told else "")


def without_shared(rows: Sequence[Row], longer: int = -1) -> tuple[list[Row], str]:
    """The rows without columns that say the same in all, and what these say.

    Args:
      rows: a dash says nothing, so it may stand beside what the others say.
      longer: a column stays if its text has no more characters.
    """
    texts = {name: {row[name] for row in rows} - {"–"} for name in [*rows[0]][1:]}
    shared = {
        name: "".join(of)
        for name, of in texts.items()
        if len(of) < 2 and len(rows) > 1 and len("".join(of)) > longer
    }
    kept: list[Row]
    kept = [{k: v for k, v in row.items() if k not in shared} for row in rows]
    told = "; ".join(f"{name}: {text}" for name, text in shared.items() if text)
    return kept, f"{told[0].upper()}{told[1:]}." if told else ""


def _width(lines: Sequence[Sequence[str]]) -> int:
    """Characters of the widest line, with two between columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def _tabular(heads: Sequence[Sequence[str]], body: Sequence[Sequence[str]]) -> str:
    """Each head in lines."""
    stacked = [r"\\".join(map(_for_latex, head)) for head in heads]
    names = [
        rf"\shortstack[{'r' if column else 'l'}]{{{text}}}" if len(head) > 1 else text
        for column, (text, head) in enumerate(zip(stacked, heads, strict=True))
    ]
    cells = [names, *([*map(_for_latex, line)] for line in body)]
    written = ["  " + " & ".join(line) + r" \\" for line in cells]
    columns = "l" + "r" * (len(heads) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"  \toprule",
            written[0],
            r"  \midrule",
            *written[1:],
            r"  \bottomrule",
            r"\end{tabular}",
        ]
    )


def _for_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def shown(rows: Sequence[Row], kind: str) -> str:
    """The table as one of `FORMATS`, without an empty line at its end.

    As text it has below it what all rows say at length.
    """
    if kind == "text" and rows:
        rows, told = without_shared(rows, _LONG)
        return f"{aligned(rows)}\n{told}".rstrip()
    return {"text": aligned, "markdown": markdown, "latex": latex}[kind](rows).rstrip()
