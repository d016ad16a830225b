"""A terminal or pipe without the field's symbols gets ? in their place, no error."""

import subprocess
import sys

import pytest
from commands import ROOT, environment


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
