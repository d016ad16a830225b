"""Presets: flag files, `presets/sweep/NAME.flags` and `presets/train/NAME.flags`.

A file starts with comments, followed by one `--name=value` per line. Those of `fedsvp
sweep` are the published tables and figures. `NAME.flags` is full size. The comments of
`NAME_small.flags` list what was shrunk, one flag per line: `#   name: full value ->
small value`. `NAME_medium.flags` holds the settings of the runs to convergence;
mechanism, ε and seed are those of a cell of the tables.
"""

import pathlib
import re
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).with_name("presets")
_FLAG = re.compile(r"^--(\w+)=(.*)$", re.MULTILINE)


class Preset(NamedTuple):
    """One flag file."""

    title: str  # its first line
    flags: dict[str, str]


def read_preset(program: str, name: str) -> Preset:
    """Reads a preset of "sweep" or "train"."""
    text = (FOLDER / program / f"{name}.flags").read_text()
    title = text.partition("\n")[0].removeprefix("# ")
    return Preset(title, dict(_FLAG.findall(text)))


def texts() -> dict[str, str]:
    """The whole file of each preset, by name: what was changed, and its flags."""
    return {path.stem: path.read_text() for path in sorted(FOLDER.glob("*/*.flags"))}


def preset_names(program: str) -> list[str]:
    """The names of all presets of a program."""
    return sorted(path.stem for path in (FOLDER / program).glob("*.flags"))
