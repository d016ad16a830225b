"""`python -m experiments.convergence`, as typed: measured runs under the bound."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from commands import assert_refused, command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("convergence") / "run"
    done = command("experiments.convergence", "--epsilons=0.5", f"--output_dir={path}")
    assert done.status == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def panels(folder: pathlib.Path) -> list[dict[str, Any]]:
    return json.loads((folder / "results.json").read_text())["panels"]


def test_every_run_stays_below_theorem_2s_bound_in_every_round(
    panels: list[dict[str, Any]],
):
    assert [panel["constants"]["local_epochs"] for panel in panels] == [1, 2]
    for panel in panels:
        for curve in panel["curves"]:
            assert len(curve["bound"]) == 101
            assert np.all(np.less(curve["measured_most"], curve["bound"]))


def test_without_noise_gradient_descent_reaches_the_exact_minimum(
    panels: list[dict[str, Any]],
):
    plain = panels[0]["curves"][0]
    assert plain["epsilon"] is None and plain["noise_std"] == 0
    assert plain["measured_mean"][-1] < 1e-5 * plain["measured_mean"][0]


def test_noise_stops_the_run_at_a_floor_that_the_bound_overstates(
    panels: list[dict[str, Any]],
):
    """The last term has K² where the average of K noises has 1/K."""
    constants = panels[0]["constants"]
    noised = panels[0]["curves"][1]
    measured = np.mean(noised["measured_mean"][-20:])
    one_round = (
        0.5
        * constants["smoothness"]
        * constants["num_parameters"]
        * noised["noise_std"] ** 2
        / constants["cohort_size"]
    )
    kept = (1 - constants["learning_rate"] * constants["convexity"]) ** 2
    assert measured < one_round / (1 - kept)
    assert noised["bound"][-1] > 100 * measured


def test_the_plot_is_a_png(folder: pathlib.Path):
    assert (folder / "convergence.png").read_bytes().startswith(b"\x89PNG")
    config = json.loads((folder / "config.json").read_text())
    assert config["epsilons"] == ["0.5"] and config["seed"] == 0


def test_bad_input_is_one_line_and_nothing_is_written(tmp_path: pathlib.Path):
    messages = {
        "--epsilons=0.5,two": "epsilons must be numbers in (0, 1)",
        "--local_epochs=0": "local_epochs must be integers >= 1",
        "--learning_rate=40": "learning_rate must be < 2/L",
        "--delta=1": "delta must be in (0, 1)",
        "--cohort_size=0": "cohort_size",
    }
    assert_refused(["experiments.convergence"], messages, tmp_path / "run")
