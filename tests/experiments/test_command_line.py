"""What every experiment's frame promises: warnings and errors of one line each."""

import signal
import subprocess
import sys

import jax
import pytest
from commands import ROOT, assert_sentence, environment, program
from commands import command as typed

from experiments import command, messages
from fedsvp_jax.report import text_table

FRAME = """
import atexit, logging, os, signal, time, warnings
from experiments import command

command.define_output()
atexit.register(print, "cleared up")

class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)

def main(_):
    {}

command.run(main, "A manual.")
"""


def experiment(*lines: str) -> tuple[str, str]:
    """The code of an experiment that does this, and its flag."""
    return FRAME.format("\n    ".join(lines)), "--output_dir=unused"


def test_a_warning_and_an_error_are_a_line_each() -> None:
    lines = (
        "logging.getLogger('fedsvp_jax.run').warning('one is\\ndamaged')",
        "warnings.warn('a cache\\nis torn')",
        "raise OSError('full\\nup')",
    )
    ended = typed("-c", *experiment(*lines))
    assert ended.stderr.splitlines() == [
        "warning: one is damaged",
        "warning: a cache is torn",
        "error: full up",
    ]
    assert ended.status == 2


def test_a_missing_folder_is_asked_for() -> None:
    assert_sentence(typed("experiments.train"), "state --output_dir, the folder")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import numpy; numpy.empty(2**50)", "Unable to allocate"),
        ("bytearray(2**62)", "an allocation failed"),
        ("raise RuntimeError('RESOURCE_EXHAUSTED: Out of memory')", "Out of memory"),
    ],
)
def test_exhausted_memory_is_a_sentence(code: str, told: str) -> None:
    """It was a traceback."""
    ended = typed("-c", *experiment(code))
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: memory is exhausted; what was saved is whole")
    assert told in line and ended.status == 2


def test_a_signal_that_a_finaliser_drops_stops_all_the_same() -> None:
    lines = "print('so far')", "Held()", "time.sleep(900)"
    ended = program(*experiment(*lines))
    assert ended.status == 128 + signal.SIGTERM
    assert ended.stderr.startswith("error: stopped by SIGTERM")
    assert ended.stderr.count("\n") == 1
    # Clearing up while a compiled call is in flight ends with a segmentation fault.
    assert ended.stdout == "so far\n"


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HOME": "/h"}, "/h/.cache/fedsvp_jax"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/x/fedsvp_jax"),
        ({"XDG_CACHE_HOME": "/x", "JAX_COMPILATION_CACHE_DIR": "/j"}, None),
    ],
)
def test_compiled_programs_are_kept_in_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str | None
) -> None:
    for name in ("XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    updates: dict[str, object] = {}
    monkeypatch.setattr(jax.config, "update", updates.__setitem__)
    command.start_jax()
    assert updates.get("jax_compilation_cache_dir") == folder


@pytest.mark.parametrize(
    "plain",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["ascii", "C"],
)
def test_a_command_prints_to_a_pipe_that_takes_ascii_alone(
    plain: dict[str, str],
) -> None:
    line = [sys.executable, "-m", "experiments.train", "--help"]
    ended = subprocess.run(
        line, cwd=ROOT, env=environment() | plain, capture_output=True, timeout=300
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    text = ended.stdout.decode("ascii")
    assert "--epsilon" in text and "?" in text


def test_what_a_file_says_moves_no_cursor() -> None:
    """A site's name erased the line that said NOT IN ORDER."""
    hostile = "clinic\x1b[2K\x9b2A\u202e"
    shown = text_table.aligned([{"site": hostile, "ε": "1"}])
    assert shown.count("\n") == 2 and shown.replace("\n", "").isprintable()
    assert messages.one_line(hostile) == "clinic\\x1b[2K\\x9b2A\\u202e"
