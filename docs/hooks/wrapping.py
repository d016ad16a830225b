"""MkDocs hook: where a command is wrapped, a flag's name stays whole.

A browser may break a line after each hyphen, also between `--` and a flag's name.
"""

import re
from typing import Any

_CODE = re.compile(r"<code[ >].*?</code>", re.DOTALL)
_FLAG = re.compile(r"--\w[\w-]*")


def on_page_content(content: str, **_: Any) -> str:
    """Wraps each `--flag` inside code in an element that is not broken."""
    return _CODE.sub(lambda code: _FLAG.sub(_whole, code[0]), content)


def _whole(flag: re.Match[str]) -> str:
    return f'<span class="flag">{flag[0]}</span>'
