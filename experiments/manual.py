"""The text of --help."""

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from fedsvp_jax import mechanisms
from fedsvp_jax.core.settings import theme
from fedsvp_jax.run import plugin

SETTINGS = "Settings. "  # begins the name of a group of flags


def group(setting: str) -> str:
    """The group of flags that a setting's flag belongs to: its theme's title."""
    title = (theme(plugin.config_class(), setting).__doc__ or "").splitlines()[0]
    return SETTINGS + title.rstrip(".")


def mechanism_help() -> str:
    """One line per mechanism, for the manual that --help prints."""
    lines = [
        f"  {name:<13}{mechanisms.about(name).summary}"
        for name in mechanisms.mechanism_names()
    ]
    return "Mechanisms:\n" + "\n".join(lines)


def manual(script: str, purpose: str | None, *, full: bool = False) -> str:
    """The text of --help: purpose, mechanisms where one is chosen, then the flags.

    The full manual describes every flag; the short one names the settings, by theme.
    """
    values = flags.FLAGS
    package = f"{__package__}."  # fedsvp_jax.experiments where it is installed
    modules = values.flags_by_module_dict()
    themes = [name for name in modules if name.startswith(SETTINGS) and full]
    shared = sorted(name for name in modules if name.startswith(package))
    described = [
        values.module_help(name)
        .strip()
        .removeprefix(SETTINGS)
        .replace(f"{package}command:", "Files, devices and progress:", 1)
        for name in [*themes, *shared]
    ]
    if script in modules:
        spec = sys.modules["__main__"].__spec__
        title = spec.name.removesuffix(".__main__") if spec else script
        described.insert(0, values.module_help(script).strip().replace(script, title))
    paragraphs = [(purpose or "").rstrip()]
    if "mechanism" in values or "mechanisms" in values:
        paragraphs.append(mechanism_help())
    if not full and (listed := _themes(modules)):
        described.insert(0, "Settings (--helpfull describes each):\n" + listed)
    return "\n\n".join([*paragraphs, "Flags (--name=value):", *described])


def _themes(modules: Mapping[str, Sequence[flags.Flag[Any]]]) -> str:
    """The names of the settings' flags, in a paragraph per theme."""
    return "\n".join(
        textwrap.fill(
            f"{name.removeprefix(SETTINGS)}: "
            + " ".join(f"--{flag.name}" for flag in modules[name]),
            88,
            initial_indent="  ",
            subsequent_indent="      ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        for name in modules
        if name.startswith(SETTINGS)
    )
