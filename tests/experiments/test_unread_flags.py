"""A flag that no chosen mechanism reads is refused, and what is shown is left out."""

import dataclasses
import pathlib

import pytest
from commands import assert_refused, command

from fedsvp_jax import mechanisms
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.report import provenance
from fedsvp_jax.settings import missing_need

TRAIN = ("experiments.train", "--model=mlp", "--num_rounds=1")
SWEEP = ("experiments.sweep", "--model=mlp", "--num_rounds=1", "--seeds=0")


@pytest.mark.hole
def test_g12_the_relation_is_refused_where_it_is_not_read(
    tmp_path: pathlib.Path,
) -> None:
    message = "--relation is not read by mechanism dp_fedavg; remove it"
    line = [*TRAIN, "--mechanism=dp_fedavg"]
    assert_refused(line, {"--relation=add_remove": message}, tmp_path / "run")


@pytest.mark.hole
@pytest.mark.parametrize(
    ("mechanism", "messages"),
    [
        (
            "dp_fedavg",
            {
                "--epsilon=0.1": "--epsilon is not read by mechanism dp_fedavg, whose"
                " noise --noise_multiplier sets; remove it",
            },
        ),
        (
            "gaussian",
            {"--epsilon=0.5": "mechanism gaussian, whose noise --noise_std sets;"},
        ),
    ],
)
def test_g19_train_refuses_a_flag_that_the_mechanism_does_not_read(
    mechanism: str, messages: dict[str, str], tmp_path: pathlib.Path
) -> None:
    assert_refused([*TRAIN, f"--mechanism={mechanism}"], messages, tmp_path / "run")


@pytest.mark.hole
@pytest.mark.parametrize(
    ("mechanism", "messages"),
    [
        (
            "fedsva",
            {
                "--release_epsilon=1": "--release_epsilon is only read with"
                " --contribution_release=laplace or"
                " --contribution_release=randomized_response; remove it",
                "--relation=add_remove": "only read with --sensitivity=update_clip or",
                "--total_accounting=pld": "is only read with --total_epsilon; remove",
                "--solve=noise": "--solve is only read with --total_epsilon; remove",
            },
        ),
        (
            "fedsdp --contribution_release=worst_case",
            {
                "--shapley=additive": "--shapley is only read with"
                " --contribution_release=raw or --contribution_release=laplace or"
                " --contribution_release=randomized_response; remove it",
            },
        ),
        (
            "nbafl",
            {
                "--vote_epsilon=1": "--vote_epsilon is only read with"
                " --influence_filter=join or --influence_filter=every_k; remove it",
                "--influence_every=2": "only read with --influence_filter=every_k;",
                "--dirichlet_alpha=2": "only read with --partition=dirichlet; remove",
                "--corrupted_points=1": "is only read with --corrupted_share; remove",
            },
        ),
        (
            "dp_fedavg",
            {"--count_noise_std=3": "is only read with --adaptive_clip=true; remove"},
        ),
    ],
)
def test_g19_train_refuses_a_flag_that_needs_another_setting(
    mechanism: str, messages: dict[str, str], tmp_path: pathlib.Path
) -> None:
    line = [*TRAIN, *f"--mechanism={mechanism}".split()]
    assert_refused(line, messages, tmp_path / "run")


def test_a_class_share_and_a_large_epsilon_need_the_setting_that_reads_them() -> None:
    fields = {field.name: field for field in dataclasses.fields(ExperimentConfig)}
    for name, other, read in (
        ("class_share", "partition", {"paper": True, "iid": False}),
        ("allow_large_epsilon", "calibration", {"classical": True, "analytic": False}),
        ("corrupted_points", "corrupted_share", {0.1: True, 0.0: False}),
    ):
        for value, is_read in read.items():
            missing = missing_need(fields[name], {other: value})
            assert (missing is None) == is_read


@pytest.mark.hole
def test_g19_a_sweep_refuses_a_flag_that_no_mechanism_reads(
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / "sweep"
    nobody = "is not read by mechanisms none, gaussian; remove it"
    messages = {
        "--epsilons=0.2": f"--epsilons {nobody}",
    }
    line = [*SWEEP, "--mechanisms=none,gaussian"]
    assert_refused(line, messages, folder)
    for read in (
        ["--mechanisms=none,nbafl", "--epsilons=0.2"],
        ["--mechanisms=none,fedsva", "--shapley=additive", "--utility=loss"],
    ):  # what one of them reads is accepted
        ended = command(*SWEEP, *read, "--num_devices=99", f"--output_dir={folder}")
        assert "num_devices" in ended.stderr


@pytest.mark.parametrize(
    ("mechanism", "flags"),
    [
        ("none", ("--epsilon=3", "--delta=0.1", "--shapley=additive")),
        ("nbafl", ("--contribution_release=laplace", "--noise_std=1")),
    ],
)
def test_what_only_other_mechanisms_read_is_said_once(
    mechanism: str, flags: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    """So that a script can try mechanisms with the same flags."""
    line = [*TRAIN, f"--mechanism={mechanism}", *flags, "--corrupted_points=1"]
    ended = command(*line, f"--output_dir={tmp_path / 'run'}")
    (note,) = [one for one in ended.stderr.splitlines() if one.startswith("note: ")]
    assert note.endswith(f"not read by mechanism {mechanism}")
    assert all(flag.split("=")[0] in note for flag in flags)
    assert "--corrupted_points is only read" in ended.stderr


def test_what_a_mechanism_does_not_read_is_no_setting_of_its_own() -> None:
    for name in mechanisms.mechanism_names():
        unread = mechanisms.unread_settings(name)
        assert ("epsilon" in unread) == (not mechanisms.epsilon_sets_noise(name))
        own = mechanisms.mechanism_settings(name)
        fields = set(own.__dataclass_fields__) if own is not None else set()
        assert not fields & unread and "l2_norm_clip" not in unread
    assert mechanisms.unread_settings("from_outside") == frozenset()


@pytest.mark.hole
def test_g19_the_command_that_repeats_a_result_leaves_out_what_is_not_read() -> None:
    config = {"mechanism": "none", "epsilon": 3.0, "delta": 0.1, "seed": 1}
    assert provenance.command_line("train", config, []) == (
        "python -m experiments.train --mechanism=none --seed=1 --output_dir=DIR"
    )
    swept = {"mechanisms": ["none", "gaussian"], "epsilons": [0.2], "seeds": [0]}
    assert "epsilon" not in provenance.command_line("sweep", config | swept, [])
    assert "epsilon" not in provenance.read_settings(config)
