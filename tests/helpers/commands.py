"""The experiments as a user starts them: in processes of their own."""

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
    """`python -m ARGUMENTS`, running."""
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def command(*arguments: str) -> Ended:
    """`python -m ARGUMENTS`, to its end."""
    with start(*arguments) as process:
        out, err = process.communicate(timeout=300)
    return Ended(process.returncode, out, err)


def commands(lines: list[list[str]]) -> list[Ended]:
    """Many command lines that end early, one after the other in one process."""
    found = subprocess.run(
        [sys.executable, str(DRIVER)],
        input=json.dumps(lines),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [Ended(**ended) for ended in json.loads(found.stdout)]


def assert_refused(
    line: Sequence[str], messages: dict[str, str], folder: pathlib.Path
) -> None:
    """Each flag added to the line ends it with one sentence, and writes nothing."""
    lines = [[*line, flag, f"--output_dir={folder}"] for flag in messages]
    for done, message in zip(commands(lines), messages.values(), strict=True):
        assert done.status == 2, done
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done
        assert message in done.stderr, done
    assert not folder.exists()
