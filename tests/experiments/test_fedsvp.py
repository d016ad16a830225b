"""One command: its overview, its subcommands, and what a mistyped one says."""

import os
import subprocess
import sys

import pytest
from commands import ROOT, command, environment, program

import fedsvp_jax
from experiments import fedsvp, manual, subcommands


def test_alone_it_prints_one_screen_with_a_line_for_each_subcommand() -> None:
    shown = command("experiments.fedsvp")
    assert shown == (0, fedsvp.overview() + "\n", "")
    for name in subcommands.MODULES:
        assert f"\n  {name} " in shown.stdout
        assert subcommands.purpose(name).endswith(".")
    assert shown.stdout.count("\n") <= 24
    assert fedsvp.preset_list().count("\n") > 15


def test_the_overview_needs_no_jax() -> None:
    printed = "import sys; from experiments import fedsvp; fedsvp.overview()"
    assert program(f"{printed}; sys.exit('jax' in sys.modules)").status == 0


def test_it_tells_its_version() -> None:
    shown = command("experiments.fedsvp", "--version")
    assert shown == (0, f"fedsvp_jax {fedsvp_jax.__version__}\n", "")


def test_a_mistyped_subcommand_gets_a_suggestion() -> None:
    shown = command("experiments.fedsvp", "trian", "--seed=1")
    assert (shown.status, shown.stdout) == (2, "")
    assert shown.stderr == (
        "error: 'trian' is no subcommand of fedsvp (did you mean train?); `fedsvp` "
        "alone lists them\n"
    )


def test_a_subcommand_is_the_module_of_its_name() -> None:
    shown = command("experiments.fedsvp", "train", "--help")
    assert shown == command("experiments.train", "--help")
    refused = command("experiments.fedsvp", "train", "--epsilom=1")
    assert refused.stderr == "error: unknown flag --epsilom (did you mean epsilon?)\n"


def test_an_installed_manual_names_the_command_that_exists_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subcommands, "INSTALLED", True)
    text = "python -m experiments.train --seed=1; python -m experiments.utility.rows"
    assert manual.as_typed(text) == (
        "fedsvp train --seed=1; python -m experiments.utility.rows"
    )


def test_a_closed_pipe_ends_a_command_without_a_word() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "experiments.train", "--help"],
        cwd=ROOT,
        env=environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
