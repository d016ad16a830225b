"""The messages of a command on standard error: one plain sentence per line."""

import contextlib
import io
import json
import logging as std_logging
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from absl import flags

# Messages of absl -> sentences; the groups of a pattern fill the sentence.
_FLAG_ERRORS = (
    (
        r"flag --output_dir=None: .*must have a value.*",
        "flag --output_dir is required: the folder where every file is written",
    ),
    (
        r"flag --(\w+)=.*Non-boolean argument.*?, (.*)\)",
        r"--\1 takes true or false (or --no\1), got \2",
    ),
    (
        r"flag --(\w+)=.*: invalid literal for int.*: (.*)",
        r"--\1 takes an integer, got \2",
    ),
    (
        r"flag --(\w+)=.*: could not convert string to float: (.*)",
        r"--\1 takes a number, got \2",
    ),
    (
        r"Unknown command line flag 'sensitivity'.*",
        "flag --clipping is called --clipping",
    ),
    (
        r"Unknown command line flag '(\w+)'\. Did you mean: (.*?) \?",
        r"unknown flag --\1 (did you mean \2?)",
    ),
    (r"Unknown command line flag '(\w+)'", r"unknown flag --\1"),
)


def flag_error(error: flags.Error) -> str:
    """An error of the flags, as a sentence."""
    text = one_line(error)
    for pattern, sentence in _FLAG_ERRORS:
        if match := re.fullmatch(pattern, text):
            return match.expand(sentence)
    return text


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


class Lines(std_logging.Formatter):
    """Formats a warning as errors are: `warning: …`, one line."""

    def format(self, record: std_logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {one_line(record.getMessage())}"


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {one_line(str(message))}", file=sys.stderr)


def print_what_can_be_printed() -> None:
    """Prints ? for a character that the terminal or pipe has none for, such as ε."""
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


@contextlib.contextmanager
def silenced(values: flags.FlagValues) -> Iterator[None]:
    """Keeps what a command prints from a terminal that asked for nothing, or JSON."""
    is_silent = "quiet" in values and (values.quiet or values.json)
    with (
        contextlib.redirect_stdout(io.StringIO())
        if is_silent
        else contextlib.nullcontext()
    ):
        yield


def print_json(values: flags.FlagValues, content: Any) -> None:
    """With --json, prints the content to the terminal, whatever else is silenced."""
    if values.json:
        text = json.dumps(content, indent=2, ensure_ascii=False)
        print(text, file=sys.__stdout__, flush=True)
