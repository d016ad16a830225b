"""Where a result came from: settings, versions, hashes, the repeating command."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from fedsvp_jax.report import page, read

# What config.json records beside the flags.
NOT_FLAGS = (
    "command",
    "data_fingerprint",
    "device_kind",
    "num_test_examples",
    "num_train_examples",
    "versions",
)


def provenance_html(
    config: read.Row, hashes: Mapping[str, str], *, program: str | None
) -> str:
    """The section's body.

    Args:
      config: config.json.
      hashes: name -> SHA-256, of files and parameters.
      program: the module to run when config.json names no command; None where
        nothing tells it, and no command is shown.
    """
    versions = _dictionary(config.get("versions"))
    settings = {**_dictionary(config.get("flags")), **config}
    for name in ("flags", "versions", "command"):
        settings.pop(name, None)
    parts = []
    if program is not None:
        command = repeat_command(config, program=program)
        parts += ["<h3>Repeat it</h3>", page.code_block(command)]
    parts.append(
        page.table(
            ("setting", "value"),
            [(key, shown(value)) for key, value in sorted(settings.items())],
            caption="Configuration, as written in config.json.",
        )
    )
    if versions:
        parts.append(
            page.table(
                ("package", "version"),
                [(key, shown(value)) for key, value in sorted(versions.items())],
                caption="Versions that made the result.",
            )
        )
    parts.append(
        page.table(
            ("what", "SHA-256"),
            sorted(hashes.items()),
            caption="Hashes: two runs are equal when these are.",
        )
    )
    return "".join(parts)


def repeat_command(config: read.Row, *, program: str) -> str:
    """config.json's own `command`, or one put together from its settings.

    A sweep's lists (`epsilons`) take the place of the single setting (`epsilon`).
    """
    command = config.get("command")
    if isinstance(command, str) and command:
        return command
    if isinstance(command, list) and command:
        return shlex.join(map(str, command))
    flags = _dictionary(config.get("flags")) or config
    lists = {name for name, value in flags.items() if isinstance(value, list)}
    words = [
        f"--{key}={_flag_text(value)}"
        for key, value in sorted(flags.items())
        if value is not None and key not in NOT_FLAGS and f"{key}s" not in lists
    ]
    words.append("--output_dir=DIR")
    return shlex.join(["python", "-m", program, *words])


def shown(value: Any) -> str:
    """A setting's value: strings as they are, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _dictionary(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _flag_text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(shown, value))
    return shown(value)
