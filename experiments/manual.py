"""The text of --help."""

import textwrap
from collections.abc import Collection

from absl import flags

from fedsvp_jax import mechanisms
from fedsvp_jax.core.settings import theme
from fedsvp_jax.run import plugin

SETTINGS = "Settings. "  # begins the name of a group of flags


def group(setting: str) -> str:
    """The group of flags that a setting's flag belongs to: its theme's title."""
    title = (theme(plugin.config_class(), setting).__doc__ or "").splitlines()[0]
    return SETTINGS + title.rstrip(".")


def manual(
    script: str,
    purpose: str | None,
    described: Collection[str] | None = None,
    *,
    full: bool = False,
) -> str:
    """The text of --help: purpose, mechanisms where one is chosen, then the flags.

    Of the flags those that are `described`; None: all.

    The full manual describes every flag; the short one names the settings, by theme.
    """
    values = flags.FLAGS
    if described is not None:
        values.remove_flag_values({*values} - {*described})
    groups = {
        name: readable
        for name, group in values.flags_by_module_dict().items()
        if (readable := [flag for flag in group if flag.name in values])
    }
    package = __package__ or ""  # fedsvp_jax.experiments where it is installed
    paragraphs = [(purpose or "").rstrip()]
    if "mechanism" in values or "mechanisms" in values:
        lines = [
            f"  {name:<13}{mechanisms.about(name).summary}"
            for name in mechanisms.mechanism_names()
        ]
        paragraphs.append("\n".join(["Mechanisms:", *lines]))
    if groups:
        paragraphs.append("Flags (--name=value; --helpfull describes all):")
    for name in sorted(groups, key=lambda name: name != script):
        if name.startswith(SETTINGS) and not full:
            names = " ".join(f"--{flag.name}" for flag in groups[name])
            paragraphs.append(
                textwrap.fill(
                    f"{name}: {names}",
                    88,
                    subsequent_indent="    ",
                    break_on_hyphens=False,
                )
            )
        elif name.startswith((script, SETTINGS, package)):
            paragraphs.append(values.module_help(name).strip())
    return "\n\n".join(paragraphs)
