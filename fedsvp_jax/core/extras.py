"""Libraries that the package works without; each comes with an extra."""

import contextlib
from collections.abc import Iterator


class MissingExtra(ImportError, ValueError):
    """A library is not installed; a command says so and ends as for a wrong flag."""


@contextlib.contextmanager
def needed(extra: str, user: str) -> Iterator[None]:
    """Around the imports of an extra's library.

    Args:
      extra: of pyproject.toml, which brings the library.
      user: the feature that needs it, for the message.

    Raises:
      MissingExtra: the library is not installed.
    """
    try:
        yield
    except ImportError as error:
        library = (error.name or "a library").partition(".")[0]
        raise MissingExtra(
            f"{user} needs {library}, which is not installed: "
            f"pip install 'fedsvp_jax[{extra}]'"
        ) from error
