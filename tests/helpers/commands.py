"""The experiments as a user starts them, each in a process of its own or a fork."""

import atexit
import functools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
DRIVER = pathlib.Path(__file__).with_name("command_lines.py")


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    stdout: str
    stderr: str


def environment() -> dict[str, str]:
    """The user's: without the test session's virtual devices."""
    unwanted = ("XLA_FLAGS", "PYTHONWARNINGS")
    kept = {name: v for name, v in os.environ.items() if name not in unwanted}
    return kept | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}


def start(*arguments: str) -> subprocess.Popen[str]:
    """`python -m ARGUMENTS` in a process of its own, running."""
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def typed(*arguments: str) -> Ended:
    """`python -m ARGUMENTS` in a process of its own, to its end."""
    with start(*arguments) as process:
        out, err = process.communicate(timeout=300)
    return Ended(process.returncode, out, err)


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Runs command lines in forks of what it imported; ends with its input."""
    process = subprocess.Popen(
        [sys.executable, str(DRIVER)],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)
    return process


def command(*arguments: str) -> Ended:
    """`python -m ARGUMENTS` to its end, in a fork of one process for all tests.

    Its standard input is empty. Variables that a test sets do not reach it.
    """
    asks, answers = _server().stdin, _server().stdout
    assert asks is not None and answers is not None
    print(json.dumps(arguments), file=asks, flush=True)
    return Ended(**json.loads(answers.readline()))


def assert_refused(
    line: Sequence[str], messages: dict[str, str], folder: pathlib.Path
) -> None:
    """Each flag added to the line ends it with one sentence, and writes nothing."""
    for flag, message in messages.items():
        done = command(*line, flag, f"--output_dir={folder}")
        assert done.status == 2, done
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done
        assert message in done.stderr, done
    assert not folder.exists()
