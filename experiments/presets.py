"""Presets: flag files for experiments.sweep, one per published table or figure.

Those of experiments.train are `OF_TRAIN` (and `routes`).

A file starts with comments, followed by one `--name=value` per line. `NAME.flags` is
full size. The comments of `NAME_small.flags` list what was shrunk, one flag per line:
`#   name: full value -> small value`. `NAME_medium.flags` holds the settings of the
runs to convergence; mechanism, ε and seed are those of a cell of the tables.
"""

import pathlib
import re
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).with_name("presets")
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


class Preset(NamedTuple):
    """One flag file."""

    name: str
    title: str  # the paper and its table or figure
    flags: dict[str, str]


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
    lines, flags = path.read_text().splitlines(), {}
    for line in lines:
        if match := _FLAG.fullmatch(line):
            flags[match[1]] = match[2]
        elif not line.startswith("#"):
            raise ValueError(
                f"{path} holds the line {line!r}, which is neither a flag nor a comment"
            )
    return Preset(name, lines[0].removeprefix("# "), flags)


def preset_names() -> list[str]:
    """The names of all presets."""
    return sorted(path.stem for path in FOLDER.glob("*.flags"))
