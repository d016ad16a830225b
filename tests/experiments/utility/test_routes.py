"""The routes of docs/utility.md: settings that resolve, and rows that tell the claim."""

import pytest

from experiments.utility import docs_page
from experiments.utility.routes import ROUTES, Route
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
    assert (config.total_epsilon is None) == (config.mechanism == "none")


def test_names_tell_the_routes_of_a_setup_apart() -> None:
    keys = [(one.setup, one.name, one.settings.get("total_epsilon")) for one in ROUTES]
    assert len(set(keys)) == len(keys)
    left_out = [one.setup for one in ROUTES if one.name == "private records left out"]
    assert set(left_out) == {one.setup for one in ROUTES}  # stands in every table


def test_a_line_is_a_route_over_its_seeds_with_the_largest_spent() -> None:
    rows = [ROW, ROW | {"seed": 1, "accuracy": 0.94, "spent_pld": 1.9}]
    free = ROW | {"route": "b", "total_epsilon": None, "spent_pld": None}
    free |= {"status": None, "adversary": None, "relation": None}
    text = docs_page.table([*rows, free])
    assert "| a | 1.90 of 2 (proved) | server | one record | 92.0 ± 2.8 |" in text
    assert "| b | – | – | – | 90.0 | 80.0 | 70.0 | 1 |" in text
