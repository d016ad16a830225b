"""Presets: every one is accepted as typed, and a small one tells what it shrank."""

import dataclasses
import pathlib
import re

import pytest
from absl import flags
from commands import command as run_command
from published import SET_UP

from experiments import command, presets
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core.settings import kind
from fedsvp_jax.federation import plan

NAMES = presets.preset_names("sweep")
# A medium preset leaves the mechanisms to who runs one of its cells.
PLANNED = ("--mechanisms=none,nbafl,time_varying,reestimation,dpa,fedsva",)
MEDIUM, SMALL = "_medium", "_small"
SMALLER = [name for name in NAMES if name.endswith((MEDIUM, SMALL))]
OF_THE_PAPER = (
    *("num_clients", "cohort_size", "num_rounds", "local_epochs", "batch_size"),
    *("l2_norm_clip", "delta"),
)
_SHRUNK = re.compile(r"#   (\w+): (.+) -> (.+)")


@pytest.mark.hole
def test_a_sweep_takes_a_published_presets_flags_but_for_those_typed() -> None:
    values = flags.FlagValues()
    for name in presets.read_preset("sweep", "fedsva_table1_cifar10").flags:
        flags.DEFINE_list(name, None, "", flag_values=values)
    values(["sweep", "--seeds=7"])
    chosen = presets.read_preset("sweep", "fedsva_table1_cifar10")
    command.default_settings(values, chosen.flags)
    assert values.epsilons == ["0.2", "0.3", "0.4", "0.5"] and values.seeds == ["7"]
    assert values["seeds"].present and not values["epsilons"].present


@pytest.mark.parametrize("name", NAMES)
def test_a_presets_flags_are_accepted(name: str, tmp_path: pathlib.Path) -> None:
    """What is refused is what was added: data that are not there, or the devices."""
    ended = run_command(
        "experiments.sweep",
        f"--preset={name}",
        "--data_dir=/nowhere",
        f"--output_dir={tmp_path / name}",
        "--num_devices=99",
        *(PLANNED if name.endswith(MEDIUM) else ()),
    )
    assert ended.status == 2, ended
    assert "/nowhere" in ended.stderr or "num_devices" in ended.stderr, ended.stderr


@pytest.mark.parametrize("name", SMALLER)
def test_a_smaller_preset_differs_only_in_what_its_head_says(name: str) -> None:
    small = presets.read_preset("sweep", name)
    head = (presets.FOLDER / "sweep" / f"{name}.flags").read_text()
    (against,) = re.findall(r"^# Against (\w+)\.flags:$", head, re.MULTILINE)
    full = presets.read_preset("sweep", against).flags
    if name.endswith(MEDIUM):  # these are of each cell
        planned = ("mechanisms", "epsilons", "seeds")
        full = {k: v for k, v in full.items() if k not in planned}
    changed = {
        flag: (full.get(flag, "default"), small.flags.get(flag, "default"))
        for flag in full.keys() | small.flags.keys()
        if full.get(flag) != small.flags.get(flag)
    }
    shrunk = map(_SHRUNK.fullmatch, head.splitlines())
    assert changed == {match[1]: match.groups()[1:] for match in shrunk if match}


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n.startswith("fed") and n not in SMALLER]
)
def test_the_full_size_is_the_published_set_up(name: str) -> None:
    named = presets.read_preset("sweep", name).flags
    assert (named["num_hbc_clients"], named["learning_rate"]) == ("10", "0.1")
    for setting in OF_THE_PAPER:
        assert float(named[setting]) == getattr(SET_UP, setting)
    if name.startswith("fedsva_table1_cifar10"):
        assert (named["model"], named["dataset"]) == ("resnet18", "cifar10")
        assert named["epsilons"] == "0.2,0.3,0.4,0.5" and named["seeds"] == "0:5"


def test_every_line_of_a_preset_is_a_flag_or_a_comment() -> None:
    for path in presets.FOLDER.rglob("*.flags"):
        lines = [line for line in path.read_text().splitlines() if line[0] != "#"]
        program = "train" if path.parent.name == "train" else "sweep"
        flags = presets.read_preset(program, path.stem).flags
        assert lines == [f"--{name}={value}" for name, value in flags.items()], path


@pytest.mark.parametrize("name", presets.preset_names("train"))
def test_a_preset_of_train_is_taken_where_nothing_is_typed(name: str) -> None:
    """The proved ones are a promise, with each record at one client."""
    values = flags.FlagValues()
    typed = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer}
    typed |= {float: flags.DEFINE_float, str: flags.DEFINE_string}
    for field in dataclasses.fields(ExperimentConfig):
        define = typed[kind(field)]
        define(field.name, field.default, "", flag_values=values)
    values(["train", "--num_rounds=3"])
    preset = presets.read_preset("train", name).flags
    for flag, text in preset.items():
        values.set_default(flag, text)
    settings = {flag: values[flag].value for flag in preset}
    assert settings.get("num_rounds", 3) == 3
    config = ExperimentConfig(**settings, data_dir="data")
    if name.startswith("proved"):
        config = dataclasses.replace(config, total_epsilon=2.0)
        assert config.partition == "iid"
        assert plan.make_configured_mechanism(resolve(config))[1].basis.proved
