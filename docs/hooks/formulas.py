"""MkDocs hook: formulas become MathML when the site is built: no page needs a script.

Pages write formulas between dollar signs, which GitHub shows too. The extension
arithmatex marks them, and latex2mathml translates them.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_MARKED = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL
)


def on_page_content(content: str, **_: Any) -> str:
    """Replaces each marked formula by MathML."""
    return _MARKED.sub(_typeset, content)


def _typeset(match: re.Match[str]) -> str:
    source = html.unescape(match[2]).strip()
    if match[1] == "span":
        return str(convert(source))
    return f'<div class="wide">{convert(source, display="block")}</div>'
