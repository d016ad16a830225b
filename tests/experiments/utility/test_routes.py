"""Routes of docs/results/utility.md: settings that resolve, rows with their claim."""

import dataclasses
import pathlib

import pytest
from absl import flags
from small_runs import SMALL, read_rows

from experiments import command, provenance
from experiments.utility import rows
from experiments.utility.routes import ROUTES, SETUPS, Route, proved_settings
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import plan

ROW = {
    "route": "a",
    "total_epsilon": 2.0,
    "seed": 0,
    "accuracy": 0.9,
    "private_accuracy": 0.8,
    "worst_tenth_accuracy": 0.7,
    "spent_pld": 1.5,
    "adversary": "server",
    "relation": "one record",
    "status": "proved",
}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_is_a_run_and_a_promise_where_it_names_one(route: Route) -> None:
    config = route.config(0, "data")
    plan.mechanism_config(config)
    free = config.mechanism == "none" or config.noise_multiplier == 0
    assert (config.total_epsilon is None) == free


@pytest.mark.parametrize("setup", ["mnist_once", "femnist_once"])
def test_the_preset_is_the_tables_route_but_for_what_is_named(setup: str) -> None:
    (route,) = (
        one
        for one in ROUTES
        if (one.setup, one.settings.get("total_epsilon")) == (setup, 2.0)
    )
    values = flags.FlagValues()
    for field in dataclasses.fields(ExperimentConfig):
        flags.DEFINE_string(field.name, None, "", flag_values=values)
    dataset = SETUPS[setup].common["dataset"]
    values(["train", f"--dataset={dataset}", "--num_rounds=3"])
    command.default_settings(values, proved_settings(dataset))
    found = {name: values[name].value for name in route.settings}
    assert found == route.settings | {"total_epsilon": None, "num_rounds": "3"}
    for unknown in ("digits", "adult", "cifar10"):
        with pytest.raises(ValueError, match=f"got {unknown}"):
            proved_settings(unknown)


@pytest.mark.hole
@pytest.mark.parametrize("dataset", ["mnist", "femnist"])
def test_n6_the_preset_deals_each_record_once(dataset: str) -> None:
    settings = proved_settings(dataset)
    assert settings["partition"] == "iid" and "class_share" not in settings


def test_names_tell_the_routes_of_a_setup_apart() -> None:
    keys = [(one.setup, one.name, one.settings.get("total_epsilon")) for one in ROUTES]
    assert len(set(keys)) == len(keys)
    left_out = [one.setup for one in ROUTES if one.name == "private records left out"]
    assert set(left_out) == set(SETUPS)  # stands in every table of attribute records


def test_rows_that_are_there_are_not_computed_again(tmp_path: pathlib.Path) -> None:
    settings = dataclasses.asdict(SMALL) | {
        "mechanism": "nbafl",
        "num_rounds": 2,
        "class_share": 0.1,  # so that some records lie with several clients
        "sensitivity": "attribute_records",
        "calibration": "analytic",
        "total_epsilon": 3.0,
        "total_accounting": "rdp",  # takes less time than PLD, and holds it too
        "delta": 1e-5,
        "solve": "noise",
    }
    settings = {k: v for k, v in settings.items() if k not in ("seed", "data_dir")}
    routes = [Route("small", "attribute records", settings)]
    file = tmp_path / "kept" / "small.jsonl"

    def compute(most_seeds: int) -> list[dict]:
        rows.compute(
            routes, file, tmp_path / "runs", data_dir=None, most_seeds=most_seeds
        )
        return read_rows(file)

    (first,) = compute(1)
    assert first["status"] == "proved" and first["adversary"] == "server"
    assert 0 < first["spent_pld"] <= 3 and "not protected" in first["relation"]
    assert first["copies"] > 1 and first["spent_of_copies"] > first["spent_pld"]
    assert set(provenance.FIELDS) == first["provenance"].keys()
    assert [row["seed"] for row in compute(2)] == [0, 1]
    assert compute(2)[0] == first
