"""--config: a file of flags; the command line wins, and mistakes are sentences."""

import json
import pathlib
from typing import Any

import pytest
from absl import flags
from commands import assert_sentence, command

from experiments import config_file
from fedsvp_jax.report import provenance


def parsed(path: pathlib.Path, text: str, *more: str) -> flags.FlagValues:
    path.write_text(text)
    values = flags.FlagValues()
    for define, name, default in (
        (flags.DEFINE_float, "epsilon", 0.5),
        (flags.DEFINE_integer, "num_rounds", 50),
        (flags.DEFINE_bool, "augment", None),
        (flags.DEFINE_float, "l2_norm_clip", None),
        (flags.DEFINE_string, "mechanism", "fedsva"),
        (flags.DEFINE_list, "seeds", ["0"]),
        (flags.DEFINE_string, "output_dir", None),
        (flags.DEFINE_string, "config", None),
    ):
        define(name, default, "", flag_values=values)
    words = ["train", f"--config={path}", *more]
    faults: list[str] = []
    assert config_file.parse(values, words, faults) == ["train"] and not faults
    return values


def test_a_runs_own_settings_are_flags_that_nobody_typed(
    tmp_path: pathlib.Path,
) -> None:
    text = json.dumps(
        {
            "mechanism": "none",
            "epsilon": 0.25,  # not read by mechanism none
            "l2_norm_clip": None,  # strict JSON's infinity
            "num_rounds": 3,
            "batch_size": 5,  # no flag of this command
            "versions": {"jax": "1"},
            "data_fingerprint": "0" * 64,
        }
    )
    values = parsed(tmp_path / "config.json", text, "--num_rounds=7")
    assert (values.mechanism, values.num_rounds) == ("none", 7)
    assert values.l2_norm_clip == float("inf")
    assert values["epsilon"].using_default_value
    assert not values["mechanism"].using_default_value  # no preset changes it
    assert not values["mechanism"].present and values["num_rounds"].present == 1


@pytest.mark.hole
def test_a_setting_of_another_version_is_named(
    whole_run: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It was dropped without a word, and the run was another."""
    old = json.loads((whole_run / "config.json").read_bytes())
    assert provenance.unknown_settings(old) == []
    new = tmp_path / "config.json"
    new.write_text(json.dumps(old | {"client_epsilons": "1,2", "of_old": None}))
    line = ("experiments.train", f"--config={new}", f"--output_dir={tmp_path}/run")
    assert_sentence(command(*line), "version or command lacks: client_epsilons; ")


@pytest.mark.hole
def test_all_settings_that_are_wrong_are_told_at_once() -> None:
    """The first one hid the others, so that a line was typed as often as it had."""
    words = ("--learning_rate=-1", "--seed=-2", "--output_dir=never")
    ended = command("experiments.train", *words)
    for sentence in ("learning_rate must be greater than 0", "seed must be at least 0"):
        assert_sentence(ended, sentence)


def test_a_file_of_flags_is_typed_by_a_person(tmp_path: pathlib.Path) -> None:
    """--flagfile is absl's own; what nothing reads is refused as if typed."""
    path = tmp_path / "a.flags"
    path.write_text("--mechanism=dp_fedavg\n--epsilon=1\n")
    line = ("experiments.train", f"--flagfile={path}", f"--output_dir={tmp_path}/run")
    assert_sentence(command(*line), "--epsilon is not read by mechanism")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "No such file"),
        ("epsilon = 1", "must be the config.json of a run or a sweep"),
        ('{"epsilon": 1}', "must be the config.json of a run or a sweep; --flagfile"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence(
    text: str | None, sentence: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "a.json"
    if text is not None:
        path.write_text(text)
    line = ("experiments.train", f"--config={path}", f"--output_dir={tmp_path}/run")
    assert_sentence(command(*line), sentence)
    assert not (tmp_path / "run").exists()


@pytest.mark.hole
def test_a_run_takes_a_sweeps_one_value_and_asks_among_several(
    whole_run: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It was fedsva at ε = .5 where the sweep's file says nbafl, .8."""
    content = json.loads((whole_run / "config.json").read_bytes())
    for name in provenance.SWEPT:
        del content[name]
    path = tmp_path / "config.json"
    run = {"mechanism", "epsilon", "seed", "total_epsilon", "solve"}
    sweep = {"mechanisms", "epsilons", "seeds", "total_epsilon", "solve"}

    def read(names: set[str], *typed: str, **more: Any) -> dict[str, str]:
        path.write_text(json.dumps(content | more))
        taken = config_file.read(path, names, ["train", *typed])
        return {name: taken[name] for name in taken if name in names}

    one = {"mechanisms": ["nbafl"], "epsilons": [0.8], "seeds": [3]}
    taken = {"mechanism": "nbafl", "epsilon": "0.8", "seed": "3"}
    assert read(run, **one).items() >= taken.items()
    of_run = {"mechanism": "nbafl", "epsilon": 0.8, "seed": 3}
    listed = {"mechanisms": "nbafl", "epsilons": "0.8", "seeds": "3"}
    assert read(sweep, **of_run).items() >= listed.items()
    several = {"mechanisms": ["none", "nbafl"], "epsilons": [0.1, 0.8], "seeds": [0, 1]}
    words = r"type --mechanism= \(of none,nbafl\), --epsilon= .*, --seed= "
    with pytest.raises(ValueError, match=words):
        read(run, **several)
    assert read(run, "--mechanism=none", "--seed=1", **several)["mechanism"] == "none"
    total = one | {"total_epsilons": [3.0]}
    assert (
        read(run, **total).items() >= {"total_epsilon": "3.0", "solve": "noise"}.items()
    )


def test_a_flagfile_that_is_missing_is_one_sentence() -> None:
    ended = command("experiments.train", "--flagfile=/no", "--output_dir=never")
    assert_sentence(ended, "error: Unable to open flagfile: [Errno 2] No such file")
