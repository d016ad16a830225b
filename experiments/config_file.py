"""--config=FILE: flags from a TOML file or the config.json of a run or a sweep."""

import difflib
import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags

from fedsvp_jax.run import plugin

from . import messages


class Read(NamedTuple):
    """The content of a file as flags: name -> the text after `--name=`."""

    flags: dict[str, str]
    typed: bool  # by a person, so that a flag that nothing reads is refused


def define() -> None:
    """Defines --config."""
    flags.DEFINE_string(
        "config",
        None,
        "File with flags: FILE.toml with lines `name = value`, where [section] lines "
        "are headings only, or the config.json of a run or a sweep. Flags of the "
        "command line win.",
    )


def parse(
    values: flags.FlagValues, arguments: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Parses a command line, after the flags of the file that --config names.

    Returns:
      The command line without its flags, and a sentence for each flag that is wrong.

    Raises:
      ValueError, OSError: the file cannot be read, or holds a key that is no flag.
    """
    path = last_value(arguments, "config") if "config" in values else None
    if path is None:
        return _parse_all(values, arguments)
    file_flags = read(Path(path).expanduser(), set(values) - {"config"})
    words = [f"--{name}={value}" for name, value in file_flags.flags.items()]
    rest, wrong = _parse_all(values, [arguments[0], *words, *arguments[1:]])
    if not file_flags.typed:
        for name in file_flags.flags:  # as if nobody had typed it: nothing refuses it
            values[name].present -= 1
    return rest, wrong


_FLAG = re.compile(r"flag --(\w+)=")


def _parse_all(
    values: flags.FlagValues, arguments: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Parses without each flag that is wrong, since absl tells of the first alone."""
    words, wrong = list(arguments), list[str]()
    while True:
        try:
            return values(words), wrong
        except flags.Error as error:
            wrong.append(messages.flag_error(error))
            match = _FLAG.match(str(error))
            name = str(getattr(error, "flagname", match[1] if match else ""))
            left = _without(values, words, name)
            if left == words and name in values and values[name].value is None:
                left = [*words, f"--{name}=-"]  # it is required
            if left == words:
                return [], wrong
            words = left


def _without(values: flags.FlagValues, words: Sequence[str], flag: str) -> list[str]:
    """The words but for a flag, with its value where that is a word of its own."""
    kept, takes_next = [], False
    for word in words:
        if takes_next:
            takes_next = False
            continue
        name, equals, _ = word.lstrip("-").partition("=")
        is_flag = word.startswith("-") and name in (flag, f"no{flag}")
        if not is_flag:
            kept.append(word)
        elif not equals and flag in values:
            takes_next = not values[flag].boolean
    return kept


def last_value(arguments: Sequence[str], flag: str) -> str | None:
    """The value of a flag's last use on the command line; None without one."""
    path = None
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        name, equals, value = word.lstrip("-").partition("=")
        if word == "--":
            break
        if word.startswith("-") and name == flag:
            path = value if equals else following
    return path


def read(path: Path, flag_names: Collection[str]) -> Read:
    """The flags that a file names.

    Args:
      path: `.toml`, or JSON.
      flag_names: the flags of the command. In the config.json of a run, settings that
        other commands have are passed over; other names are mistakes.

    Raises:
      ValueError, OSError: as `parse`.
    """
    if not path.is_file():
        raise ValueError(
            f"config {path} is not a file; --config expects a .toml or .json file"
        )
    if path.suffix in (".yaml", ".yml"):
        raise ValueError(
            f"config {path} is YAML, and --config reads TOML: write `name = value` in "
            "a file .toml for each `name: value`, with texts in quotes"
        )
    data = path.read_bytes()
    try:
        if path.suffix == ".toml":
            content = tomllib.loads(data.decode())
        else:
            content = json.loads(data)
    except (ValueError, RecursionError) as error:
        kind = "a TOML file" if path.suffix == ".toml" else "JSON"
        raise ValueError(f"config {path} cannot be read as {kind}: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"config {path} must hold names and values")
    if "data_fingerprint" in content:  # a run or a sweep wrote it
        from fedsvp_jax.report import provenance

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
        return Read({n: v for n, v in recorded if n in flag_names}, typed=False)
    return Read(_flat(path, content, flag_names), typed=True)


def _flat(
    path: Path, content: Mapping[str, Any], flag_names: Collection[str]
) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            inner = _flat(path, value, flag_names)
            if twice := sorted(texts.keys() & inner):
                raise ValueError(f"config {path} names {twice[0]} twice")
            texts |= inner
            continue
        if name not in flag_names:
            near = difflib.get_close_matches(name, flag_names, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ValueError(f"config {path}: {name} is no flag{hint}")
        texts[name] = _text(value, f"config {path}: {name}")
    return texts


def _text(value: Any, label: str) -> str:
    """A value as it is typed after `--name=`."""
    if isinstance(value, list):
        return ",".join(_text(item, label) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return str(value)
    raise ValueError(f"{label} must be a number, a text, true, false or a list of them")
