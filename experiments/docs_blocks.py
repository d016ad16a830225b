"""Pages of docs/ with parts that a program writes, each between two markers:

<!-- measured: NAME -->
what the program wrote
<!-- end -->
"""

import re
from collections.abc import Callable, Mapping

_BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(page: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """The page with every block written again.

    Args:
      page: its text.
      blocks: the functions that write the blocks, by block.

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
