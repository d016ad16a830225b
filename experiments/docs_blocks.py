"""Pages of docs/ with parts that a program writes, each between two markers.

Short parts stand on the page, long tables on docs/results/PAGE:

<!-- measured: NAME -->
what the program wrote
<!-- end -->
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from fedsvp_jax.report import read

from . import command

DOCS = Path("docs")  # of the folder that a page's command is started in
_BETWEEN = "\n<!-- the next page -->\n"
_BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(page: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """The page with every block written again.

    Raises:
      ValueError: the blocks of the page are not those that can be written.
    """
    names = [match[2] for match in _BLOCK.finditer(page)]
    if sorted(names) != sorted(blocks):
        raise ValueError(
            f"the page must hold each of the blocks {', '.join(sorted(blocks))} once, "
            f"got {', '.join(sorted(names))}"
        )
    return _BLOCK.sub(
        lambda match: f"{match[1]}\n{blocks[match[2]]().strip()}\n\n{match[3]}", page
    )


def rewrite(page: Path, blocks: Mapping[str, Callable[[], str]]) -> Path:
    """Writes every block of a page and of its tables again; returns the page's path.

    Raises:
      ValueError: as `rewritten`, of both together.
    """
    tables = page.parent / "results" / page.name
    pages = [page, *([tables] if tables.exists() else [])]
    texts = rewritten(_BETWEEN.join(one.read_text() for one in pages), blocks)
    for one, text in zip(pages, texts.split(_BETWEEN), strict=True):
        if one == tables:
            text = text.replace("](images/", "](../images/")
        read.write_text(one, text)
    return page


def run(write: Callable[[Path], Path], manual: str | None) -> None:
    """The command that writes a page."""
    command.run(lambda _: command.print_files([write(DOCS)]), manual)
