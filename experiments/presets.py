"""Presets: flag files for `fedsvp sweep`, one per published table or figure.

Those of `fedsvp train` are `OF_TRAIN`. What `proved` sets are the rows *attribute
records* of experiments/studies/utility.

A file starts with comments, followed by one `--name=value` per line. `NAME.flags` is
full size. The comments of `NAME_small.flags` list what was shrunk, one flag per line:
`#   name: full value -> small value`. `NAME_medium.flags` holds the settings of the
runs to convergence; mechanism, ε and seed are those of a cell of the tables.
"""

import pathlib
import re
from typing import Any, NamedTuple

from absl import flags

FOLDER = pathlib.Path(__file__).with_name("presets")
# What `fedsvp train --preset=NAME` sets, in one line.
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
_PROVED = {
    "mechanism": "gaussian",
    "delta": 1e-5,
    "total_accounting": "pld",
    "solve": "noise",
    "sensitivity": "attribute_records",
    "partition": "iid",  # each record at one client
    "eval_every": 4,
    "private_weight": 0.6,
    "private_from": 10,
}
_ROUTES: dict[str, dict[str, Any]] = {
    "mnist": {
        "model": "mlp",
        "num_rounds": 60,
        "max_uploads": 6,
        "private_clip": 0.3,
        "private_margin": 3.0,
    },
    "femnist": {
        "model": "small_cnn",
        "learning_rate": 0.2,
        "num_rounds": 40,
        "max_uploads": 4,
        "private_clip": 0.1,
        "private_layers": "classes",
        "private_margin": 1.5,
    },
}
_NOT_USEFUL = {
    "adult": "training without any private record is as accurate there, and needs no ε",
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


def choose(values: flags.FlagValues, name: str) -> None:
    """Gives flags that are not named those of a flag file, as if nobody typed them.

    Raises:
      ValueError: as `read_preset`.
    """
    for flag, text in read_preset(name).flags.items():
        if values[flag].using_default_value:
            values[flag].parse(text)
            values[flag].using_default_value = False
            values[flag].present -= 1


def proved_settings(dataset: str) -> dict[str, Any]:
    """The settings of `--preset=proved` for a data set, all but --total_epsilon.

    Raises:
      ValueError: no useful route was measured for it.
    """
    if dataset not in _ROUTES:
        why = _NOT_USEFUL.get(dataset, "no useful route was measured")
        raise ValueError(
            f"preset proved is for {' and '.join(_ROUTES)}, got {dataset}: {why}"
        )
    return {"dataset": dataset, **_PROVED, **_ROUTES[dataset]}
