"""--config=FILE: flags from a TOML file or the config.json of a run or a sweep."""

import difflib
import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags

from fedsvp_jax.run import plugin


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


def parse(values: flags.FlagValues, arguments: Sequence[str]) -> list[str]:
    """Parses a command line, after the flags of the file that --config names.

    Returns:
      The command line without its flags.

    Raises:
      ValueError, OSError: the file cannot be read, or holds a key that is no flag.
      flags.Error: a flag is wrong.
    """
    path = last_value(arguments, "config") if "config" in values else None
    if path is None:
        return values(arguments)
    file_flags = read(Path(path).expanduser(), set(values) - {"config"})
    words = [f"--{name}={value}" for name, value in file_flags.flags.items()]
    rest = values([arguments[0], *words, *arguments[1:]])
    if not file_flags.typed:
        for name in file_flags.flags:  # as if nobody had typed it: nothing refuses it
            values[name].present -= 1
    return rest


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
      flag_names: the flags of the command. Other names are passed over in the
        config.json of a run, and are mistakes in other files.

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
