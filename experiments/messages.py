"""The messages of a command on standard error: one plain sentence per line."""

import contextlib
import functools
import io
import logging as std_logging
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import jinja2


def one_line(error: BaseException | str) -> str:
    from fedsvp_jax.core.files import printable

    return printable(" ".join(str(error).split()))


def of_memory(error: BaseException) -> str | None:
    """One sentence if the host's or a device's memory did not suffice, else None."""
    text = one_line(error)
    if not (isinstance(error, MemoryError) or text.startswith("RESOURCE_EXHAUSTED")):
        return None
    return (
        "memory is exhausted; what was saved is whole, and --resume goes on from it. "
        "Less is needed with a smaller --client_chunk_size, --batch_size or model "
        f"({text.rstrip('.') or 'an allocation failed'})"
    )


@functools.cache
def _templates() -> Any:
    """The pages' environment, of templates/; `table` aligns rows in columns."""
    from fedsvp_jax.core.files import printable
    from fedsvp_jax.report import page, text_table

    folder = pathlib.Path(__file__).with_name("templates")
    templates = page.templates().overlay(loader=jinja2.FileSystemLoader(folder))
    templates.filters |= {
        "table": text_table.aligned,
        "printable": printable,
    }
    return templates


def filled(template: str, **values: Any) -> str:
    """The text of a file of templates/ with these values."""
    return _templates().get_template(template).render(values)


class Lines(std_logging.Formatter):
    """Formats a warning as errors are: `warning: …`, one line."""

    def format(self, record: std_logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {one_line(record.getMessage())}"


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {one_line(str(message))}", file=sys.stderr)


def print_what_can_be_printed() -> None:
    """Prints ? for a character that the terminal or pipe cannot encode, such as ε."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """Ends the process without a word where the reader of its output has gone.

    `fedsvp train --help | head` closes the pipe that the manual is written to. The
    exit status is then the one that a shell gives to a process that SIGPIPE ended.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + 13)
