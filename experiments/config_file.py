"""--config=FILE: the settings of an earlier run or sweep, from its config.json."""

import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from absl import flags

from fedsvp_jax import mechanisms
from fedsvp_jax.core.settings import nearest
from fedsvp_jax.run import plugin

_TOTAL = {"total_epsilon": "total_epsilons"}


def parse(
    values: flags.FlagValues, arguments: Sequence[str], faults: list[str]
) -> list[str]:
    """Parses a command line, after the settings of the file that --config names.

    Args:
      values: the flags.
      arguments: the command line.
      faults: to which a sentence on every wrong flag is added.

    Returns:
      The command line without its flags.

    Raises:
      ValueError, OSError: the file cannot be read, or is no config.json.
    """
    path = early_value(arguments, "config") if "config" in values else None
    recorded = read(Path(path).expanduser(), {*values}, arguments) if path else {}
    words = [f"--{name}={value}" for name, value in recorded.items()]
    rest: list[str] = []
    line = [arguments[0], *words, *arguments[1:]]
    while line:
        try:
            rest, line = values(line), []
        except flags.Error as error:
            text = str(error).partition(". Did you mean")[0]
            match = re.search(r"flag (?:--|')(\w+)(?:=(.*): value.*<(.*)>)?", text)
            name, value, choices = match.groups() if match else ("", None, "")
            of_node = arguments[1:2] == ["node"]  # of `fedsvp site`
            if value or name not in values:
                text += nearest(value or name, (choices or "|".join(values)).split("|"))
            faults.append(f"{text}{of_node * '; Flower’s own flags follow --'}")
            remaining = [w for w in line if w.lstrip("-").partition("=")[0] != name]
            line = remaining if remaining != line else []
    for name in recorded:  # as if nobody had typed it: nothing refuses it
        values[name].present -= 1
    return rest


def early_value(arguments: Sequence[str], flag: str) -> str | None:
    """The value of a flag on the command line, before all flags are parsed."""
    early = flags.FlagValues()
    flags.DEFINE_string(flag, None, "", flag_values=early)
    early(arguments, known_only=True)
    return early[flag].value


def read(
    path: Path, flag_names: Collection[str], arguments: Sequence[str]
) -> dict[str, str]:
    """The recorded settings that are flags of the command: name -> text after the =.

    A list of a sweep is a run's setting where it has one value, and the reverse.

    Raises:
      ValueError, OSError: as `parse`; or a list has several values, and the command
        line names none.
    """
    from fedsvp_jax.report import provenance

    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or "data_fingerprint" not in content:
        raise ValueError(
            f"config {path} must be the config.json of a run or a sweep; --flagfile "
            "takes a file with a line --name=value per flag"
        )
    if file := plugin.missing(content):
        raise ValueError(
            f"config {path} is of a run with --plugin={file}: name it too, since "
            "a file starts no code"
        )
    gone = sorted({*provenance.unknown_settings(content)} - {*flag_names})
    if gone:
        raise ValueError(
            f"config {path} holds settings that this version or command lacks: "
            f"{', '.join(gone)}; without them it is another run: go on with the "
            "version that wrote it, or remove them from a copy of the file"
        )
    recorded = dict(provenance.setting_flags(content))
    choices = []
    for name, listed in (provenance.SWEPT | _TOTAL).items():
        if "seeds" in flag_names:  # of a sweep, which solves for a total_epsilon too
            if name in recorded and name not in _TOTAL:
                recorded[listed] = recorded[name]
            continue
        if name not in flag_names or listed not in recorded:
            continue
        if name in _TOTAL:
            recorded["solve"] = "noise"
        value = early_value(arguments, name) or recorded[listed]
        recorded[name] = value
        unread = mechanisms.unread_settings(recorded.get("mechanism", ""))
        if "," in value and name not in unread:
            choices.append(f"--{name}= (of {value})")
    if choices:
        raise ValueError(
            f"config {path} is of a sweep: type {', '.join(choices)}, or name the "
            "config.json of a run; with these fedsvp train makes a run with the model "
            "of a cell, which --run then names"
        )
    return {name: value for name, value in recorded.items() if name in flag_names}
