"""The command under "Repeat it" runs, and ends in the same parameters."""

import dataclasses
import html
import math
import re
import shlex
from pathlib import Path

import pytest
from commands import SMALL_RUN, command
from small_runs import digits, small

from fedsvp_jax import report, run
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core.files import Record, plain
from fedsvp_jax.report import page, provenance

# As flags: a run in this process, with its four devices, would compile another program.
RUNS = {
    "default settings": ("--model=mlp",),
    "infinite clip": (*SMALL_RUN, "--mechanism=none", "--l2_norm_clip=inf"),
    "infinite vote": (
        *(*SMALL_RUN, "--influence_filter=join", "--corrupted_share=0.3"),
        *("--backbone_epochs=1", "--vote_epsilon=inf"),
    ),
}
# The plan, and the base that the command line makes of it: last mechanism and ε.
PLAN = run.sweep.SweepPlan(("gaussian", "nbafl"), (0.5,), (1, 2))
BASE = small(mechanism="nbafl", epsilon=0.5, seed=1, num_rounds=1)


def command_on(page: Path) -> list[str]:
    """The words of the command that a report page shows."""
    shown = re.search(r"Repeat it.*?<pre[^>]*>(.*?)</pre>", page.read_text(), re.DOTALL)
    assert shown
    return shlex.split(html.unescape(shown[1]))


def assert_repeats(page: Path) -> None:
    """Runs the page's command and compares what comes out, byte by byte."""
    first, again = page.parent, page.parent.with_name("again")
    fedsvp, program, *words, place = command_on(page)
    assert (fedsvp, place) == ("fedsvp", "--output_dir=DIR")
    ended = command(f"experiments.{program}", *words, f"--output_dir={again}")
    assert ended.status == 0, ended.stderr
    hashes = "cells.json" if (first / "cells.json").exists() else "summary.json"
    for name in ("config.json", "report.html", hashes):
        assert (again / name).read_bytes() == (first / name).read_bytes(), name


@pytest.mark.parametrize(
    "name",
    [
        "infinite clip",
        pytest.param("default settings", marks=pytest.mark.slow),
        pytest.param("infinite vote", marks=pytest.mark.slow),
    ],
)
def test_the_command_on_a_runs_page_repeats_it(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    line = ("experiments.train", *RUNS[name], "--num_rounds=1")
    ended = command(*line, f"--output_dir={folder}")
    assert ended.status == 0, ended.stderr
    assert_repeats(folder / "report.html")


@pytest.mark.slow
def test_the_command_on_a_sweeps_page_repeats_it(tmp_path: Path) -> None:
    run.sweep.sweep(BASE, PLAN, tmp_path / "sweep", dataset=digits())
    assert_repeats(report.write_sweep_report(tmp_path / "sweep"))


CONTINUE = "--on_divergence=continue"
LISTS = "--epsilons=0.1,0.5 --seeds=0"
DIVERGED = ({"diverged_clients": [3]}, {"diverged_clients": [], "model_finite": False})
SWEPT = {"epsilon": 0.1, "epsilons": [0.1, 0.5], "seed": 0, "seeds": [0]}
SWEPT |= {"client_values": "none", "client_value_utility": "accuracy"}  # removed


@pytest.mark.parametrize(
    ("config", "rounds", "words"),
    [
        ({"dataset": "two words", "total_epsilon": None}, [], "'--dataset=two words'"),
        *(({}, [{"model_finite": True}, row], CONTINUE) for row in DIVERGED),
        (SWEPT, [], LISTS),
        (SWEPT | {"part": "2/3"}, [], f"{LISTS} --part=2/3"),
        (SWEPT | {"cell_chunk_size": 2}, [], f"{LISTS} --cell_chunk_size=2"),
    ],
)
def test_a_command_names_what_was_given_and_is_read(
    config: Record,
    rounds: list[Record],
    words: str,
) -> None:
    """Quoted for the shell; of a sweep the lists; what diverged goes on."""
    program = "sweep" if "seeds" in config else "train"
    shown = provenance.command_line(program, config, rounds)
    assert shown == f"fedsvp {program} {words} --output_dir=DIR"


@pytest.mark.hole
def test_no_command_stands_for_settings_that_are_no_flags() -> None:
    """A run of 0.3.0 was to be repeated without its clip, "the same numbers"."""
    old = {"mechanism": "gaussian", "sensitivity": "update_clip"}
    assert provenance.command_line("train", old, []) is None
    valued = {"client_values": "exact", "client_value_utility": "accuracy"}
    assert provenance.unknown_settings(valued) == ["client_values"]
    plan = plain(dataclasses.asdict(PLAN))
    assert provenance.unknown_settings(plan) == []  # --config refused every sweep's
    rates = plan | {"learning_rates": [0.1]}
    assert provenance.command_line("sweep", rates, []) is None


@pytest.mark.hole
def test_a_command_whose_noise_is_secret_repeats_no_number() -> None:
    """Its page said "the same numbers", and a new folder draws a new key."""
    part = page.templates().get_template("parts.html").module
    for secret in (False, True):
        config = {"mechanism": "none", "secret_noise": secret}
        text = str(part.provenance("train", config, [], {}))
        assert ("the same numbers" in text) != secret
        assert ("drawn anew" in text) == secret


@pytest.mark.parametrize("dataset", ["digits", "cifar10", "adult", "npz", "tfds:mnist"])
def test_a_setting_that_may_be_infinite_is_never_left_unset(dataset: str) -> None:
    """Null in config.json then means infinity: strict JSON has no other word for it."""
    config = resolve(ExperimentConfig(dataset=dataset))
    infinite = [f for f in dataclasses.fields(config) if f.metadata["infinite"]]
    assert {field.name for field in infinite} == {
        "l2_norm_clip",
        "private_clip",
        "vote_epsilon",
    }
    assert None not in [getattr(config, field.name) for field in infinite]
    recorded = plain(dataclasses.asdict(config) | {"l2_norm_clip": math.inf})
    assert recorded["l2_norm_clip"] is None
    assert provenance.recorded_settings(recorded)["l2_norm_clip"] == math.inf
