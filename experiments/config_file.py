"""--config=FILE: the settings of an earlier run or sweep, from its config.json."""

import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from absl import flags

from fedsvp_jax.run import plugin


def define() -> None:
    """Defines --config."""
    flags.DEFINE_string(
        "config",
        None,
        "The config.json of a run or a sweep, whose settings are taken. Flags of the "
        "command line win. (--flagfile takes a file of lines --name=value.)",
    )


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
    recorded = read(Path(path).expanduser(), set(values)) if path else {}
    words = [f"--{name}={value}" for name, value in recorded.items()]
    rest: list[str] = []
    line = [arguments[0], *words, *arguments[1:]]
    while line:
        try:
            rest, line = values(line), []
        except flags.Error as error:
            name = "".join(re.findall(r"flag (?:--|')(\w+)", str(error))[:1])
            of_node = arguments[1:2] == ["node"]  # of `fedsvp site`
            faults.append(f"{error}{of_node * '; Flower’s own flags follow --'}")
            others = [w for w in line if w.lstrip("-").partition("=")[0] != name]
            line = others if others != line else []
    for name in recorded:  # as if nobody had typed it: nothing refuses it
        values[name].present -= 1
    return rest


def early_value(arguments: Sequence[str], flag: str) -> str | None:
    """The value of a flag on the command line, before all flags are parsed."""
    early = flags.FlagValues()
    flags.DEFINE_string(flag, None, "", flag_values=early)
    early(arguments, known_only=True)
    value: str | None = early[flag].value
    return value


def read(path: Path, flag_names: Collection[str]) -> dict[str, str]:
    """The recorded settings that are flags of the command: name -> text after the =.

    Raises:
      ValueError, OSError: as `parse`.
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
    recorded = provenance.setting_flags(content)
    return {name: value for name, value in recorded if name in flag_names}
