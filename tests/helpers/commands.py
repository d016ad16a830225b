"""The experiments as a user starts them, each in a process of its own or a fork."""

import atexit
import functools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from fedsvp_jax.report.read import RUN_FILES

ROOT = pathlib.Path(__file__).parents[2]
DRIVER = pathlib.Path(__file__).with_name("command_lines.py")


# A run of a second a round or less.
SMALL_RUN = (
    "--model=mlp",
    "--num_clients=6",
    "--num_hbc_clients=1",
    "--cohort_size=2",
    "--class_share=0.03",
    "--batch_size=5",
    "--local_epochs=1",
)


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    stdout: str
    stderr: str


def environment() -> dict[str, str]:
    """The user's, with the test session's compiler, but without its virtual devices."""
    unwanted = ("XLA_FLAGS", "PYTHONWARNINGS", "COLUMNS")  # which xdist sets
    kept = {name: v for name, v in os.environ.items() if name not in unwanted}
    flags = os.environ.get("XLA_FLAGS", "").split()
    if chosen := " ".join(flag for flag in flags if "device_count" not in flag):
        kept["XLA_FLAGS"] = chosen
    return kept | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}


def start(*words: str, how: str = "-m", **variables: str) -> subprocess.Popen[str]:
    """`python -m WORDS`, or `python -c WORDS`, in a process of its own, running."""
    return subprocess.Popen(
        [sys.executable, how, *words],
        cwd=ROOT,
        env=environment() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def typed(*words: str, how: str = "-m", timeout: float = 600) -> Ended:
    """The same to its end."""
    with start(*words, how=how) as process:
        out, err = process.communicate(timeout=timeout)
    return Ended(process.returncode, out, err)


program = functools.partial(typed, how="-c")


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

    So is `python -c CODE`. Its standard input is empty. Variables that a test sets do
    not reach it, and what it registers for its exit is not called.
    """
    asks, answers = _server().stdin, _server().stdout
    assert asks is not None and answers is not None
    print(json.dumps(arguments), file=asks, flush=True)
    return Ended(**json.loads(answers.readline()))


def succeeds(*arguments: str) -> Ended:
    """`command`, whose exit status must be 0."""
    ended = command(*arguments)
    assert ended.status == 0, ended.stderr
    return ended


def assert_same_bytes(
    one: pathlib.Path, other: pathlib.Path, names: Sequence[str] = RUN_FILES
) -> None:
    """The named files of both folders are equal; by default those of a run."""
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def assert_sentence(ended: Ended, message: str) -> None:
    """It was refused with status 2 and one sentence, which holds the message."""
    assert ended.status == 2, ended
    assert ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1, ended
    assert message in ended.stderr, ended


def assert_refused(
    line: Sequence[str], messages: dict[str, str], folder: pathlib.Path
) -> None:
    """Flags added to the line end it with one sentence, and nothing is written."""
    for flags, message in messages.items():
        ended = command(*line, *flags.split(), f"--output_dir={folder}")
        assert_sentence(ended, message)
    assert not folder.exists()


def results(folder: pathlib.Path) -> dict[str, Any]:
    """An attack's results, without the command and the date that made them."""
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    assert found.pop("provenance")["command"]
    return found


def assert_resumed(line: Sequence[str], folder: pathlib.Path, piece: str) -> None:
    """Without its results and one piece, an attack's folder gets the same results."""
    before = results(folder)
    (folder / "results.json").unlink()
    (folder / "pieces" / f"{piece}.json").unlink()
    succeeds(*line, f"--output_dir={folder}", "--resume")
    assert results(folder) == before
