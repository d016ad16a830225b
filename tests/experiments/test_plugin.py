"""--plugin=FILE.py: a mechanism from outside in the commands, its settings as flags.

The file is the block of docs/library.md that a page tells its reader to put there.
"""

import json
import pathlib
import re
import shlex

import pytest
from commands import ROOT, SMALL_RUN, assert_sentence, command, succeeds

PAGE = (ROOT / "docs" / "library.md").read_text()
BLOCKS = re.findall(r"```python[^\n]*\n(.*?)```", PAGE, re.DOTALL)
(FILE,) = (block for block in BLOCKS if "def make_two_phase" in block)
RUN = (
    "experiments.train",
    *SMALL_RUN,
    "--mechanism=two_phase",
    "--clipping=update_clip",
    "--num_rounds=2",
)


@pytest.fixture
def plugin(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "two_phase.py"
    path.write_text(FILE)
    return f"--plugin={path}"


@pytest.mark.hole
def test_a_plugin_may_compute_while_it_is_read(tmp_path: pathlib.Path) -> None:
    """JAX has then started, and took no number of CPU devices: a traceback."""
    path = tmp_path / "table.py"
    path.write_text(f"{FILE}\n\nTABLE = jnp.ones(3) + 1\n")
    assert "two_phase" in succeeds(*RUN, f"--plugin={path}", "--dry_run").stdout


@pytest.mark.hole
@pytest.mark.parametrize(
    ("was", "now", "named"),
    [
        (
            "import jax.numpy",
            "import jax.nmpy",
            "two_phase.py, line 2: ModuleNotFoundError: No mod",
        ),
        ("def make_two_phase(", "def make_two_phase((", "(two_phase.py, line 17)"),
        (
            "    return base.chain(clip, law)",
            "    base.chain(clip, law)",
            "two_phase.py must return a Mechanism, as of base.chain, got None",
        ),
        (
            "        multiplier = jnp",
            "        multiplier = -jnp",
            "examples, by mechanism two_phase",
        ),
        (
            "        multiplier =",
            "        z =",
            "two_phase.py, line 24: UnboundLocalError: ",
        ),
    ],
)
def test_an_error_in_a_plugin_is_a_sentence_with_its_line_and_a_traceback_if_asked(
    was: str, now: str, named: str, tmp_path: pathlib.Path
) -> None:
    """It was a traceback of the library's frames."""
    assert was in FILE
    path = tmp_path / "two_phase.py"
    path.write_text(FILE.replace(was, now))
    line = (*RUN, f"--plugin={path}", f"--output_dir={tmp_path / 'run'}")
    ended = command(*line)
    assert_sentence(ended, named)
    assert "Traceback" in command(*line, "--verbosity=1").stderr


def test_a_run_has_its_flags_records_it_and_prints_a_command_that_repeats_it(
    plugin: str, tmp_path: pathlib.Path
) -> None:
    line = (*RUN, plugin, "--late_multiplier=2")
    first = tmp_path / "first"
    succeeds(*line, f"--output_dir={first}")
    config = json.loads((first / "config.json").read_text())
    assert (config["late_multiplier"], config["plugin"]) == (2.0, plugin[9:])
    rows = (first / "clients.jsonl").read_text().splitlines()
    assert {json.loads(row)["noise_multiplier"] for row in rows} == {4.0, 2.0}
    page = (first / "report.html").read_text()
    words = shlex.split(re.search(r"fedsvp train (.*?)<", page)[1])
    again = [word.replace("=DIR", f"={tmp_path}/again") for word in words]
    succeeds("experiments.train", *again)
    for name in ("config.json", "metrics.jsonl", "clients.jsonl"):
        assert (first / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    succeeds("experiments.report", plugin, str(first))
    undated = re.sub(r" Made [\d-]+\.", "", page)  # `fedsvp report` writes no date
    assert (first / "report.html").read_text() == undated
    noted = succeeds("experiments.report", str(first)).stderr
    assert f"was made with {plugin}; name it" in noted
    assert "fedsvp train" not in (first / "report.html").read_text()


def test_a_sweep_has_it_and_without_the_plugin_nobody_knows_the_mechanism(
    plugin: str, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "sweep"
    line = ("experiments.sweep", *SMALL_RUN, "--mechanisms=two_phase", "--seeds=0")
    line += ("--num_rounds=1", "--clipping=update_clip")
    shown = succeeds(*line, plugin, f"--output_dir={folder}").stdout
    assert "two_phase" in shown and "two_phase" in (folder / "table.md").read_text()
    assert_sentence(command(*line, "--output_dir=x"), "mechanism must be one of")
    config = f"--config={folder / 'config.json'}"
    named = f"is of a run with {plugin}: name it too"
    assert_sentence(command(*line, config, "--output_dir=x"), named)
    for path, words in (("no.py", "and there is no no.py"), (str(folder), "got ")):
        ended = command(*line, f"--plugin={path}")
        assert_sentence(ended, f"plugin must be a file FILE.py, {words}")
    assert "--late_multiplier" in succeeds(*line, plugin, "--help").stdout
    ended = command(*line, plugin, "--epsilons=.1", "--output_dir=x")
    assert_sentence(ended, "--epsilons is not read by mechanism two_phase; remove it")
