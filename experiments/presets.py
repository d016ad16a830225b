"""Presets: flag files for experiments.sweep, one per published table or figure.

The presets of experiments.train are those of `OF_TRAIN`.

A file starts with comments, followed by one `--name=value` per line. `NAME.flags` is
full size. The comments of `NAME_small.flags` list what was shrunk, one flag per line:
`#   name: full value -> small value`. `NAME_medium.flags` holds the settings of the
runs to convergence; mechanism, ε and seed are those of a cell of the tables.
"""

import pathlib
import re
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).with_name("presets")
SMALL = "_small"
MEDIUM = "_medium"
SIZES = ("small", "medium", "full")
# What `experiments.train --preset=NAME` sets, in one line.
OF_TRAIN = {
    "proved": "the route that leaves a good model under a proved "
    "--total_epsilon; it hides the records of one attribute of mnist or femnist, and "
    "deals each record to one client.",
    "fedavg": "plain averaging.",
    "fedavgm": "the server's step with momentum.",
    "fedadam": "Adam at the server.",
    "fedyogi": "Yogi at the server.",
    "fedprox": "a proximal term at the clients (the settings of these five: "
    "docs/optimizers.md; choose the noise by --mechanism).",
}
_FLAG = re.compile(r"--(\w+)=(.*)")
_SHRUNK = re.compile(r"  (\w+): (.+) -> (.+)")


class Preset(NamedTuple):
    """One flag file."""

    name: str
    title: str  # the paper and its table or figure
    head: list[str]  # the other comment lines, without the #
    flags: dict[str, str]

    @property
    def shrunk(self) -> dict[str, tuple[str, str]]:
        """The flags that were shrunk: flag -> (full value, small value)."""
        matches = (_SHRUNK.fullmatch(line) for line in self.head)
        return {match[1]: (match[2], match[3]) for match in matches if match}

    @property
    def notes(self) -> list[str]:
        """The comment lines that are not about single flags."""
        return [
            line
            for line in self.head
            if not _SHRUNK.fullmatch(line) and not line.startswith("Against ")
        ]


def read_preset(name: str) -> Preset:
    """Reads a preset.

    Raises:
      ValueError: it does not exist, or a line is neither a comment nor a flag.
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
            raise ValueError(
                f"{path} holds the line {line!r}, which is neither a flag nor a comment"
            )
    return Preset(name, head[0], head[1:], flags)


def preset_names(size: str | None = None) -> list[str]:
    """The names of all presets, or of those of one size (of SIZES)."""
    names = sorted(path.stem for path in FOLDER.glob("*.flags"))
    if size is None:
        return names
    if size == "medium":
        return [name for name in names if name.endswith(MEDIUM)]
    small = [name for name in names if name.endswith(SMALL)]
    if size == "small":
        return small
    return [name for name in names if not name.endswith((SMALL, MEDIUM, "demo"))]
