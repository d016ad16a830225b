"""A table for a terminal."""

from collections.abc import Sequence


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """The lines with columns of equal width: the first flush left, the others right.

    Args:
      lines: the head and the rows, all of the same length.
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.rjust(width) if column else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
