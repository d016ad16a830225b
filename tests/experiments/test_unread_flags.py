"""A flag that no chosen mechanism reads is refused, and what is shown is left out."""

import pathlib

import pytest
from commands import command

from fedsvp_jax import mechanisms
from fedsvp_jax.report import provenance

TRAIN = ("experiments.train", "--model=mlp", "--num_rounds=1")
SWEEP = ("experiments.sweep", "--model=mlp", "--num_rounds=1", "--seeds=0")


@pytest.mark.parametrize(
    "read",
    [
        ["--mechanisms=none,nbafl", "--epsilons=0.2"],
        ["--mechanisms=none,fedsva", "--shapley=additive", "--utility=loss"],
    ],
)
def test_a_sweep_takes_a_flag_that_one_mechanism_reads(
    read: list[str], tmp_path: pathlib.Path
) -> None:
    ended = command(*SWEEP, *read, "--num_devices=99", f"--output_dir={tmp_path}/run")
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
        assert ("epsilon" in unread) == (not mechanisms.about(name).epsilon_sets_noise)
        own = mechanisms.about(name).settings
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
