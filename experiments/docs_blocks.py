"""Pages of docs/ whose measured parts a program writes.

<!-- measured: NAME -->
what the program wrote
<!-- end -->
"""

import re
from collections.abc import Callable, Mapping

_BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(page: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """The page with every block written anew.

    Raises:
      ValueError: the page lacks a block, or has one that nothing fills.
    """
    named = [match[2] for match in _BLOCK.finditer(page)]
    if sorted(named) != sorted(blocks):
        raise ValueError(
            f"the page must hold each of the blocks {', '.join(sorted(blocks))} once, "
            f"got {', '.join(sorted(named))}"
        )
    return _BLOCK.sub(
        lambda match: f"{match[1]}\n{blocks[match[2]]().strip()}\n\n{match[3]}", page
    )
