"""Tables as text: for a terminal, for a Markdown page, and for a paper in LaTeX.

A table is a list of rows, and a row is what it shows by column: `{"ε": "0.2", …}`. All
rows of a table have the same columns in the same order.
"""

import re
from collections.abc import Mapping, Sequence

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

Row = Mapping[str, str]


def aligned(rows: Sequence[Row]) -> str:
    """Columns of equal width, without Markdown's marks: the first flush left."""
    lines = [[*rows[0]], *([text.strip("*`") for text in row.values()] for row in rows)]
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
    """A `tabular` with the rules of LaTeX's package booktabs, the first column left.

    Text is escaped, and the symbols that our tables hold become commands of standard
    LaTeX; marks of Markdown are left out. A table wider than a paper's column is
    turned: its rows become columns, as many side by side as fit, in tabulars one below
    the other that all begin with the names of what is shown.
    """
    plain = [{key: text.strip("*`") for key, text in row.items()} for row in rows]
    lines = [[*plain[0]], *([*row.values()] for row in plain)]
    if _width(lines) <= _COLUMN:
        return _tabular(lines)
    names, *turned = lines
    parts: list[list[list[str]]] = []
    for column in turned:
        if parts and _width(_turned([names, *parts[-1], column])) <= _COLUMN:
            parts[-1].append(column)
        else:
            parts.append([column])
    return "\n\n".join(_tabular(_turned([names, *part])) for part in parts)


def _turned(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """What stood in a line stands in a column."""
    return [list(column) for column in zip(*lines, strict=True)]


def _width(lines: Sequence[Sequence[str]]) -> int:
    """Characters of the widest line, with two between columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def _tabular(lines: Sequence[Sequence[str]]) -> str:
    written = ["  " + " & ".join(map(_for_latex, line)) + r" \\" for line in lines]
    columns = "l" + "r" * (len(lines[0]) - 1)
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
    """The table as one of `FORMATS`, without an empty line at its end."""
    return {"text": aligned, "markdown": markdown, "latex": latex}[kind](rows).rstrip()
