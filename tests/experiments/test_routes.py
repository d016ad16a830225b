"""What --preset=proved sets."""

import dataclasses

import pytest
from absl import flags

from experiments import command
from experiments.routes import proved_settings
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.federation import plan


@pytest.mark.parametrize("dataset", ["mnist", "femnist"])
def test_the_preset_is_a_proved_promise_and_what_is_typed_wins(dataset: str) -> None:
    values = flags.FlagValues()
    for field in dataclasses.fields(ExperimentConfig):
        flags.DEFINE_string(field.name, None, "", flag_values=values)
    values(["train", f"--dataset={dataset}", "--num_rounds=3"])
    route = proved_settings(dataset)
    command.default_settings(values, route)
    found = {name: values[name].value for name in route}
    assert found == route | {"num_rounds": "3"}
    given = ExperimentConfig(**route, total_epsilon=2.0, data_dir="data")
    assert plan.told_and_made(resolve(given))[1].claim.proved


@pytest.mark.parametrize("unknown", ["digits", "adult", "cifar10"])
def test_other_data_sets_have_no_route(unknown: str) -> None:
    with pytest.raises(ValueError, match=f"got {unknown}"):
        proved_settings(unknown)


@pytest.mark.hole
@pytest.mark.parametrize("dataset", ["mnist", "femnist"])
def test_n6_the_preset_deals_each_record_once(dataset: str) -> None:
    settings = proved_settings(dataset)
    assert settings["partition"] == "iid" and "class_share" not in settings
