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
from fedsvp_jax.core.optimizers import METHODS
from fedsvp_jax.federation import plan

NAMES = presets.preset_names()
# A medium preset leaves the mechanisms to who runs one of its cells.
PLANNED = ("--mechanisms=none,nbafl,time_varying,reestimation,dpa,fedsva",)
MEDIUM, SMALL = "_medium", "_small"
SMALLER = [name for name in NAMES if name.endswith((MEDIUM, SMALL))]
OF_THE_PAPER = (
    *("num_clients", "cohort_size", "num_rounds", "local_epochs", "batch_size"),
    *("l2_norm_clip", "delta"),
)
_SHRUNK = re.compile(r"#   (\w+): (.+) -> (.+)")


def test_every_method_of_the_servers_step_has_a_preset_of_train() -> None:
    assert METHODS.keys() <= presets.OF_TRAIN.keys()


@pytest.mark.hole
def test_a_sweep_takes_a_published_presets_flags_but_for_those_typed() -> None:
    values = flags.FlagValues()
    for name in presets.read_preset("fedsva_table1_cifar10").flags:
        flags.DEFINE_list(name, None, "", flag_values=values)
    values(["sweep", "--seeds=7"])
    presets.choose(values, "fedsva_table1_cifar10")
    assert values.epsilons == ["0.2", "0.3", "0.4", "0.5"] and values.seeds == ["7"]
    assert values["seeds"].present and not values["epsilons"].present


@pytest.mark.parametrize("name", [*NAMES, "fedyogi"])
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
    small = presets.read_preset(name)
    head = (presets.FOLDER / f"{name}.flags").read_text()
    (against,) = re.findall(r"^# Against (\w+)\.flags:$", head, re.MULTILINE)
    full = presets.read_preset(against).flags
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
    named = presets.read_preset(name).flags
    assert (named["num_hbc_clients"], named["learning_rate"]) == ("10", "0.1")
    for setting in OF_THE_PAPER:
        assert float(named[setting]) == getattr(SET_UP, setting)
    if name.startswith("fedsva_table1_cifar10"):
        assert (named["model"], named["dataset"]) == ("resnet18", "cifar10")
        assert named["epsilons"] == "0.2,0.3,0.4,0.5" and named["seeds"] == "0:5"


def test_an_unknown_preset_and_a_line_that_is_no_flag_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(ValueError, match="preset must be one of"):
        presets.read_preset("fedsva_table9")
    folder = tmp_path_factory.mktemp("presets")
    (folder / "odd.flags").write_text("# A preset.\nnum_rounds=3\n")
    monkeypatch.setattr(presets, "FOLDER", folder)
    with pytest.raises(ValueError, match="num_rounds=3"):
        presets.read_preset("odd")


@pytest.mark.parametrize("dataset", ["mnist", "femnist"])
def test_the_preset_is_a_proved_promise_and_what_is_typed_wins(dataset: str) -> None:
    values = flags.FlagValues()
    for field in dataclasses.fields(ExperimentConfig):
        flags.DEFINE_string(field.name, None, "", flag_values=values)
    values(["train", f"--dataset={dataset}", "--num_rounds=3"])
    route = presets.proved_settings(dataset)
    command.default_settings(values, route)
    found = {name: values[name].value for name in route}
    assert found == route | {"num_rounds": "3"}
    # N6: each record at one client.
    assert route["partition"] == "iid" and "class_share" not in route
    given = ExperimentConfig(**route, total_epsilon=2.0, data_dir="data")
    assert plan.make_configured_mechanism(resolve(given))[1].claim.proved
