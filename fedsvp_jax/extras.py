"""Imports that the core works without: extras' libraries and the rooms around it."""

import importlib
from typing import Any


class MissingExtra(ImportError, ValueError):
    """A library is not installed; a command says so and ends as for a wrong flag."""


def needed(library: str, extra: str, user: str) -> Any:
    """The imported library.

    Args:
      library: a module's dotted name.
      extra: of pyproject.toml, which brings it.
      user: the feature that needs it, for the message.

    Raises:
      MissingExtra: it is not installed.
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise MissingExtra(
            f"{user} needs {library.partition('.')[0]}, which is not installed: "
            f"pip install 'fedsvp_jax[{extra}]'"
        ) from error


def around(module: str) -> Any:
    """A module of a room around the core, by its name below the package."""
    return importlib.import_module(f"fedsvp_jax.{module}")
