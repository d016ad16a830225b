"""MkDocs hook: the page of all settings, made from their declarations."""

import dataclasses
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from fedsvp_jax.config import ExperimentConfig, defaults_of
from fedsvp_jax.core.settings import kind, theme
from fedsvp_jax.data.datasets import DATA_SETS

_HEAD = """# Settings

Every setting of a run, by theme: its default, what it may be, and what it does. On a
command line a setting is a flag, `--name=value`. In Python it is a field of
`ExperimentConfig`. In a file for `--config=FILE.toml` it is a line `name = value`. This
page is made from the declarations of the settings when the site is built.

A default that is chosen from the data's size (for `npz`, `csv` and `store`) is printed
before the training. `--dry_run` shows what follows from all settings, and keeps
no model.
"""
_KINDS = {bool: "true or false", int: "integer", float: "number", str: "text"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds settings.md."""
    files.append(File.generated(config, "settings.md", content=markdown()))
    return files


def markdown() -> str:
    """The page."""
    by_theme: dict[type, list[dataclasses.Field]] = {}
    for field in dataclasses.fields(ExperimentConfig):
        by_theme.setdefault(theme(ExperimentConfig, field.name), []).append(field)
    parts = [_HEAD]
    for declared, fields in by_theme.items():
        title, _, about = (declared.__doc__ or "").splitlines()[0].partition(": ")
        parts += [f"## {title}", about[:1].upper() + about[1:]]
        parts.append(
            "\n".join(
                [
                    "| setting | default | allowed | what it does |",
                    "|---|---|---|---|",
                    *map(_row, fields),
                ]
            )
        )
    return "\n\n".join(parts) + "\n"


def _row(field: dataclasses.Field) -> str:
    cells = (f"`{field.name}`", _default(field), _allowed(field), _help(field))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _help(field: dataclasses.Field) -> str:
    text = field.metadata["help"].replace("<", "&lt;").replace("*", "\\*")
    if field.metadata["needs"] is None:
        return text
    other, values = field.metadata["needs"]
    given = " or ".join(f"`{other}={_shown(value)}`" for value in values)
    return f"{text} Only read with {given or f'`{other}`'}."


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _default(field: dataclasses.Field) -> str:
    """The declared default, or those of the data sets, the commonest first."""
    if field.default is not None:
        return f"`{_shown(field.default)}`"
    of: dict[str, list[str]] = {}
    for name in (*DATA_SETS, "npz", "csv", "store"):
        defaults = defaults_of(name)
        if field.name in defaults:
            of.setdefault(_shown(defaults[field.name]), []).append(name)
    if not of:
        return "–"
    common, *others = sorted(of, key=lambda value: -len(of[value]))
    named = [f"{', '.join(of[value])}: `{value}`" for value in others]
    return "; ".join([f"`{common}`", *named])


def _allowed(field: dataclasses.Field) -> str:
    meta = field.metadata
    if meta["choices"] is not None:
        return ", ".join(f"`{choice}`" for choice in meta["choices"])
    limits = [f"{name} {limit:g}" for name, limit in meta["limits"].items()]
    words = [_KINDS[kind(field)], " and ".join(limits)]
    return ", ".join(filter(None, words)) + (", or inf" if meta["infinite"] else "")
