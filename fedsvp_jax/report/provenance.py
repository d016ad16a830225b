"""Where a result came from: settings, versions, hashes and the command to repeat it."""

import dataclasses
import json
import math
import shlex
from collections.abc import Sequence
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.core.files import Record, toml_beside
from fedsvp_jax.core.settings import missing_need
from fedsvp_jax.run import plugin, records

# The settings that a sweep varies, and the flags that list their values.
SWEPT = {"mechanism": "mechanisms", "epsilon": "epsilons", "seed": "seeds"}
_FACTS = frozenset(toml_beside(__file__, "assets/provenance.toml")["facts"])


def _fields() -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(plugin.config_class())}


def command_line(program: str, config: Record, rounds: Sequence[Record]) -> str | None:
    """The command that repeats a result; None where none does.

    Its plugin is not imported, or it has settings that are no flags: of another
    version, or of a program's own parts.

    Args:
      program: "train" for a run or "sweep".
      config: config.json; a sweep's holds the base settings and the lists that vary.
      rounds: the lines of metrics.jsonl or results.jsonl, which tell whether a run or a
        cell diverged.
    """
    if plugin.missing(config) or unknown_settings(config):
        return None
    words = [f"--{name}={value}" for name, value in setting_flags(config)]
    if any(map(records.diverged, rounds)):
        words.append("--on_divergence=continue")
    return shlex.join(["fedsvp", program, *words, "--output_dir=DIR"])


def recorded_settings(config: Record) -> Record:
    """config.json, with the infinite settings that strict JSON holds as null.

    A setting that may be infinite always has a value in config.json, so null there
    means infinity. Elsewhere null means that the setting was not given.
    """
    infinite = [
        name
        for name, field in _fields().items()
        if field.metadata["infinite"] and name in config and config[name] is None
    ]
    return config | dict.fromkeys(infinite, math.inf)


def unknown_settings(config: Record) -> list[str]:
    """Names of a config.json that this version has no setting for; those that are off
    (null, false, "none", an empty list) count as if they were not there.
    """
    names = sorted(config.keys() - _FACTS - _fields().keys())
    return [name for name in names if config[name] not in (None, False, "none", [])]


def read_settings(config: Record) -> Record:
    """`recorded_settings` without those that nothing in the result reads."""
    names = config.get("mechanisms") or [config.get("mechanism")]
    unread = frozenset.intersection(
        *(mechanisms.unread_settings(str(name)) for name in names)
    )
    if "epsilon" in unread:
        unread |= {"epsilons"}
    settings = recorded_settings(config)
    needed = settings
    if settings.get("total_epsilons"):  # each cell has one, and its noise is solved for
        unread |= {"solve"}
        needed = settings | {"total_epsilon": math.inf}
    unread |= {name for name, field in _fields().items() if missing_need(field, needed)}
    return {name: value for name, value in settings.items() if name not in unread}


def value_text(value: Any) -> str:
    """A setting's value: strings as they are, infinity as `inf`, the rest as JSON."""
    if isinstance(value, str):
        return value
    if value == math.inf:
        return "inf"
    return json.dumps(value, ensure_ascii=False)


def setting_flags(config: Record) -> list[tuple[str, str]]:
    """The flags of the settings that were given and are read: (name, value)."""
    settings = read_settings(config)
    swept = SWEPT if config.keys() & SWEPT.values() else {}
    flags = [
        (name, value_text(settings[name]))
        for name in _fields()
        if settings.get(name) is not None and name not in swept
    ]
    names = [*swept.values(), "total_epsilons"]
    if settings.get("total_epsilons"):  # which take the place of the others
        names.remove("epsilons")
    flags += [
        (name, ",".join(map(value_text, settings[name])))
        for name in names
        if settings.get(name)
    ]
    if (chunk_size := settings.get("cell_chunk_size", 1)) > 1:
        flags.append(("cell_chunk_size", value_text(chunk_size)))
    if part := settings.get("part"):
        flags.append(("part", part))
    return flags
