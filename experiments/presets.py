"""Presets: flag files for experiments.sweep, one a published table or figure.

A file is a head of comments and then one `--name=value` a line. `NAME.flags` is full
size; the head of `NAME_small.flags` lists what was shrunk, a line a flag:
`#   name: full value -> small value`.
"""

import pathlib
import re
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).with_name("presets")
SMALL = "_small"
SIZES = ("small", "full")
_FLAG = re.compile(r"--(\w+)=(.*)")
_SHRUNK = re.compile(r"  (\w+): (.+) -> (.+)")


class Preset(NamedTuple):
    """One flag file."""

    name: str
    title: str  # the paper and its table or figure
    head: list[str]  # the comment's other lines, without the sign
    flags: dict[str, str]

    @property
    def shrunk(self) -> dict[str, tuple[str, str]]:
        """What the head says was shrunk: flag -> (full value, small value)."""
        found = (_SHRUNK.fullmatch(line) for line in self.head)
        return {match[1]: (match[2], match[3]) for match in found if match}

    @property
    def notes(self) -> list[str]:
        """The head's lines that are not about single flags."""
        return [
            line
            for line in self.head
            if not _SHRUNK.fullmatch(line) and not line.startswith("Against ")
        ]


def read_preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
      ValueError: there is none, or a line is neither a comment nor a flag.
    """
    path = FOLDER / f"{name}.flags"
    if not path.is_file():
        raise ValueError(
            f"preset must be one of {', '.join(preset_names())}, got {name!r}"
        )
    head, flags = [], {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            head.append(line.removeprefix("#").removeprefix(" "))
        elif match := _FLAG.fullmatch(line):
            flags[match[1]] = match[2]
        else:
            raise ValueError(f"{path} holds the line {line!r}, which is no flag")
    return Preset(name, head[0], head[1:], flags)


def preset_names(size: str | None = None) -> list[str]:
    """All presets, or those of one of SIZES, by name."""
    names = sorted(path.stem for path in FOLDER.glob("*.flags"))
    if size is None:
        return names
    small = [name for name in names if name.endswith(SMALL)]
    if size == "small":
        return small
    return [name.removesuffix(SMALL) for name in small]
