"""One command: its overview, its subcommands, and what a mistyped one says."""

import os
import pathlib
import subprocess
import sys

import pytest
from commands import (
    ROOT,
    SMALL_RUN,
    assert_sentence,
    command,
    environment,
    program,
)

import fedsvp_jax
from experiments import fedsvp, presets


def test_alone_it_prints_one_screen_with_a_line_for_each_subcommand() -> None:
    shown = command("experiments.fedsvp")
    assert shown == (0, fedsvp.overview() + "\n", "")
    for name in fedsvp.MODULES:
        assert f"\n  {name} " in shown.stdout
        assert fedsvp.purpose(name).endswith(".")
    assert shown.stdout.count("\n") <= 25
    where = shown.stdout.splitlines()[-1].removeprefix("Documentation: ")
    assert pathlib.Path(where).samefile(ROOT / "docs" / "index.md")
    listed = command("experiments.fedsvp", "presets", "--help")
    assert listed == (0, fedsvp.preset_list() + "\n", "")
    assert listed.stdout.count("\n") > 15


@pytest.mark.hole
def test_a_preset_is_shown_before_it_costs() -> None:
    """It said: subcommand must be one of …, got 'presets' (did you mean presets?)."""
    shown = command("experiments.fedsvp", "presets", "cifar10_medium")
    file = presets.FOLDER / "sweep" / "cifar10_medium.flags"
    assert shown == (0, file.read_text(), "")
    code, _, error = command("experiments.fedsvp", "presets", "cifar10_medum")
    assert code == 2 and "preset must be one of" in error
    assert "did you mean cifar10_medium?" in error


@pytest.mark.hole
def test_the_overview_needs_no_large_library() -> None:
    """NumPy, for one check of a type, and Jinja2 doubled the overview's time."""
    printed = "import sys; from experiments import fedsvp; fedsvp.overview()"
    loaded = "not {'jax', 'numpy', 'jinja2'}.isdisjoint(sys.modules)"
    assert program(f"{printed}; sys.exit({loaded})").status == 0


def test_a_subcommand_is_its_module_and_another_word_gets_a_suggestion() -> None:
    shown = command("experiments.fedsvp", "train", "--help")
    assert shown == command("experiments.train", "--help")
    version = command("experiments.fedsvp", "--version")
    assert version == (0, f"fedsvp_jax {fedsvp_jax.__version__}\n", "")
    ended = command("experiments.fedsvp", "trian", "--seed=1")
    assert_sentence(ended, "benchmark, presets, got 'trian' (did you mean train?)")


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


def test_help_names_settings_by_theme_and_helpfull_describes_them() -> None:
    short = command("experiments.train", "--help").stdout
    whole = command("experiments.train", "--helpfull").stdout
    assert short.count("\n") < 0.4 * whole.count("\n")
    assert "--l2_norm_clip" in short and "--output_dir" in short
    assert "Budget of one release of R" in whole and "Budget of one" not in short


def test_resume_goes_on_and_without_it_a_run_is_not_written_over(
    tmp_path: pathlib.Path,
) -> None:
    line = ["experiments.train", *SMALL_RUN, "--num_rounds=1", "--mechanism=none"]
    line.append("--noreport")
    line.append(f"--output_dir={tmp_path / 'a'}")
    started = command(*line).stderr
    assert "none: round 1 of 1" in started
    assert "error" not in started and "warning" not in started
    assert_sentence(command(*line), "already holds a run")
    assert "error" not in command(*line, "--resume").stderr
    assert_sentence(command(*line, "--resume", "--seed=1"), "seed is 1 and was 0")
