"""Where a result came from: settings, versions, hashes and the command to repeat it."""

import dataclasses
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.core.settings import missing_need
from fedsvp_jax.report import page, read
from fedsvp_jax.run import plugin

# The settings that a sweep varies, and the flags that list their values.
_SWEPT = {"mechanism": "mechanisms", "epsilon": "epsilons", "seed": "seeds"}
OF_RUNS = ("client_values", "client_value_models", "client_value_utility")  # alone


def _fields() -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(plugin.config_class())}


def provenance_html(
    config: read.Row, hashes: Mapping[str, str], *, command: str | None
) -> page.Markup:
    """The section's body, as markup.

    Args:
      config: config.json.
      hashes: name -> SHA-256, of files and parameters.
      command: the command line that repeats the result; None where it is not known.
    """
    body = page.part("paragraphs", [])
    if command is not None:
        body += page.part("paragraphs", [_HOW_TO_REPEAT], head="Repeat it")
        body += page.part("code", command)
    settings = read_settings(config)
    versions = settings.pop("versions", None)
    body += page.table(
        ("setting", "value"),
        [(name, value_text(value)) for name, value in sorted(settings.items())],
        caption="Settings and data, as recorded in config.json, without settings"
        " that the mechanisms do not read.",
    )
    if isinstance(versions, dict):
        body += page.table(
            ("package", "version"),
            [(name, value_text(value)) for name, value in sorted(versions.items())],
            caption="Versions of Python and of the packages that were used.",
        )
    body += page.table(
        ("file or value", "SHA-256"),
        sorted(hashes.items()),
        caption="Hashes. Two results are identical when all their hashes are.",
    )
    return body


def is_installed(package: Path) -> bool:
    """Whether the commands lie inside the package, so that `fedsvp` starts them.

    Args:
      package: the folder of fedsvp_jax. In the repository `experiments` lies beside it.
    """
    return (package / "experiments").is_dir()


_INSTALLED = is_installed(Path(__file__).parents[1])
_WHERE = "" if _INSTALLED else " in the root of the repository"
_HOW_TO_REPEAT = (
    f"Run this{_WHERE}, with a new"
    " folder for DIR. It gives the same numbers on the same kind of device with the"
    " same package versions. A data set or model that a Python program passed in"
    " itself is not part of the command."
)


def command_line(
    program: str, config: read.Row, rounds: Sequence[read.Row]
) -> str | None:
    """The command that repeats a result; None while its plugin is not imported.

    Args:
      program: "train" for a run or "sweep".
      config: config.json; a sweep's holds the base settings and the lists that vary.
      rounds: the lines of metrics.jsonl or results.jsonl, which tell whether a run or a
        cell diverged.
    """
    if plugin.missing(config):
        return None
    words = [f"--{name}={value}" for name, value in setting_flags(config)]
    if any(map(read.diverged, rounds)):
        words.append("--on_divergence=continue")
    words.append("--output_dir=DIR")
    if _INSTALLED:
        return shlex.join(["fedsvp", program, *words])
    return shlex.join(["python", "-m", f"experiments.{program}", *words])


def recorded_settings(config: read.Row) -> read.Row:
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


# What config.json holds beside settings: facts of the data, the machine and a sweep.
_FACTS = {
    *("num_train_examples", "num_test_examples", "public_test", "num_classes"),
    *("example_shape", "data_fingerprint", "loss", "has_targets", "own_code"),
    *(
        "versions",
        "hooks",
        "state_version",
        "device_kind",
        "cpu_threads",
        "cpu_instructions",
    ),
    *("xla_flags", "jax_config", "mechanisms", "epsilons", "seeds"),
    *("total_epsilons", "cell_chunk_size", "part", "cells", "plugin", "hooks"),
}


def unknown_settings(config: read.Row) -> list[str]:
    """Names of a config.json that this version has no setting for; those that are off
    (null, false, "none") count as if they were not there.
    """
    names = sorted(config.keys() - _FACTS - _fields().keys())
    return [name for name in names if config[name] not in (None, False, "none")]


def read_settings(config: read.Row) -> read.Row:
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


def setting_flags(config: read.Row) -> list[tuple[str, str]]:
    """The flags of the settings that were given and are read: (name, value)."""
    settings = read_settings(config)
    swept = _SWEPT if config.keys() & _SWEPT.values() else {}
    left_out = {*swept, *OF_RUNS} if swept else {}
    flags = [
        (name, value_text(settings[name]))
        for name in _fields()
        if settings.get(name) is not None and name not in left_out
    ]
    if not swept:
        return flags
    names = [*swept.values(), "total_epsilons"]
    if settings.get("total_epsilons"):  # which take the place of the others
        names.remove("epsilons")
    lists = [(name, settings.get(name)) for name in names]
    flags += [
        (name, ",".join(map(value_text, values))) for name, values in lists if values
    ]
    if (chunk_size := settings.get("cell_chunk_size", 1)) > 1:
        flags.append(("cell_chunk_size", value_text(chunk_size)))
    if part := settings.get("part"):
        flags.append(("part", part))
    return flags
