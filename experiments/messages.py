"""The messages of a command on standard error: one plain sentence per line."""

import contextlib
import difflib
import functools
import logging as std_logging
import os
import pathlib
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from absl import flags


def one_line(error: BaseException | str) -> str:
    from fedsvp_jax.core.files import printable

    has_path = isinstance(error, OSError) and error.filename is not None
    text = _of_path(error) if has_path else str(error)
    return printable(" ".join(text.removeprefix("ERROR:: ").split()))


def _of_path(error: Any) -> str:
    """What is wrong with a path: its flag, and the nearest name in its folder."""
    path, near = pathlib.Path(os.fsdecode(error.filename)), []
    absent = path
    while not absent.parent.exists():
        absent = absent.parent
    if absent.parent.is_dir() and not absent.exists():
        names = {*os.listdir(absent.parent)} - {f"{absent.name}.key"}  # of a log
        near = difflib.get_close_matches(absent.name, names, n=1)
    hint = f"; did you mean {absent.parent / near[0]}?" if near else ""
    if isinstance(error, FileExistsError):
        hint = "; name a new one"
    values = sorted(flags.FLAGS.flag_values_dict().items())
    flag = next((f"--{name}=" for name, value in values if value == str(path)), "")
    return f"{flag}{path}: {error.strerror}{hint}"


def of_memory(error: BaseException) -> str | None:
    """One sentence if the host's or a device's memory did not suffice, else None."""
    text = one_line(error)
    if not (isinstance(error, MemoryError) or text.startswith("RESOURCE_EXHAUSTED")):
        return None
    return (
        "memory is exhausted; what was saved is whole, and --resume goes on from it. "
        "Less is needed with a smaller --client_chunk_size, --batch_size, model, table "
        f"({text.rstrip('.') or 'an allocation failed'})"
    )


def of_plugin(error: BaseException) -> str | None:
    """One sentence with the line of the --plugin that raised it, else None."""
    from fedsvp_jax.run import plugin

    places = [
        f"{frame.filename}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename in plugin.files
    ]
    if not places:
        return None
    return (
        f"plugin {places[-1]}: {type(error).__name__}: {one_line(error)} "
        "(--verbosity=1 shows the traceback)"
    )


@functools.cache
def _templates() -> Any:
    """The pages' environment, of templates/; `table` aligns rows in columns."""
    import jinja2  # which `fedsvp --help` does not need

    from fedsvp_jax.report import page, text_table

    folder = pathlib.Path(__file__).with_name("templates")
    templates = page.templates().overlay()
    loaders = [jinja2.FileSystemLoader(folder), templates.loader]
    templates.loader = jinja2.ChoiceLoader(loaders)
    templates.filters["table"] = text_table.render
    return templates


def filled(template: str, **values: Any) -> str:
    """The text of a file of templates/ with these values."""
    return _templates().get_template(template).render(values)


def check_units(verb: str, rows: Any, schema: Any, values: Any) -> None:
    """Refuses rows of other units, codes or shares than the schema's.

    Args:
      verb: what they are for.
      rows: a `Dataset`, or `Encoded`.
      values: the flags.

    Raises:
      ValueError: columns with their numbers and bounds, whose classes look swapped, and
        the flag --accept_units, which is not typed.
    """
    text = filled("misfits.txt", verb=verb, rows=rows, schema=schema)
    if text and not values.accept_units:
        raise ValueError(text)


class Lines(std_logging.Formatter):
    """Formats a warning as errors are: `warning: …`, one line."""

    def format(self, record: std_logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {one_line(record.getMessage())}"


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {one_line(str(message))}", file=sys.stderr)


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
