"""A terminal or pipe without the field's symbols gets ? in their place, no error."""

import subprocess
import sys

import pytest
from commands import ROOT, environment

from experiments import messages
from fedsvp_jax.report import text_table


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
    assert shown.count("\n") == 1 and shown.replace("\n", "").isprintable()
    assert messages.one_line(hostile) == "clinic\\x1b[2K\\x9b2A\\u202e"
