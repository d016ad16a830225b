"""The text of --help."""

import textwrap

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
    titles = {
        script: "This command",
        f"{package}command": "Files, devices and progress",
    }
    groups = values.flags_by_module_dict()
    paragraphs = [(purpose or "").rstrip()]
    if "mechanism" in values or "mechanisms" in values:
        paragraphs.append(mechanism_help())
    paragraphs.append("Flags (--name=value; --helpfull describes all):")
    for name in sorted(groups, key=lambda name: name != script):
        title = titles.get(name, name.removeprefix(SETTINGS))
        if name.startswith(SETTINGS) and not full:
            names = " ".join(f"--{flag.name}" for flag in groups[name])
            paragraphs.append(_filled(f"{title}: {names}"))
        elif name == script or name.startswith((SETTINGS, package)):
            described = values.module_help(name).strip().partition("\n")[2]
            paragraphs.append(f"{title}:\n{described}")
    return "\n\n".join(paragraphs)


def _filled(text: str) -> str:
    return textwrap.fill(
        text,
        88,
        subsequent_indent="    ",
        break_on_hyphens=False,
        break_long_words=False,
    )
