"""`python -m experiments.convergence`, as typed: measured runs beside Theorem 2."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from commands import assert_refused, succeeds

from experiments import guarantee_tables, upload_claims

RELATION = "against: server; neighbours: replace one record of a client"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("convergence") / "run"
    succeeds("experiments.convergence", "--epsilons=0.5", f"--output_dir={path}")
    return path


@pytest.fixture(scope="module")
def panels(folder: pathlib.Path) -> list[dict[str, Any]]:
    return json.loads((folder / "results.json").read_text())["panels"]


def test_every_run_stays_below_the_printed_expression_in_every_round(
    panels: list[dict[str, Any]],
):
    assert [panel["constants"]["local_epochs"] for panel in panels] == [1, 2]
    for panel in panels:
        for curve in panel["curves"]:
            printed = curve["printed_expression"]
            assert len(printed) == 101
            assert np.all(np.less(curve["measured_most"], printed))


def test_without_noise_gradient_descent_reaches_the_exact_minimum(
    panels: list[dict[str, Any]],
):
    plain = panels[0]["curves"][0]
    assert plain["epsilon"] is None and plain["status"] is None
    assert plain["noise_std"] == 0
    assert plain["measured_mean"][-1] < 1e-5 * plain["measured_mean"][0]


@pytest.mark.hole
def test_g2_at_one_local_step_the_corrected_bound_is_near_and_the_printed_one_is_not(
    panels: list[dict[str, Any]],
):
    """The printed noise term has K² where the average of K noises has 1/K."""
    for curve in panels[0]["curves"]:
        assert np.all(np.less(curve["measured_mean"], curve["corrected_bound"]))
    noised = panels[0]["curves"][1]
    measured = np.mean(noised["measured_mean"][-20:])
    assert noised["corrected_bound"][-1] < 10 * measured
    assert noised["printed_expression"][-1] > 100 * measured
    assert all(curve["corrected_bound"] is None for curve in panels[1]["curves"])


@pytest.mark.hole
def test_g18_what_fedsva_claims_stands_beside_epsilon(
    folder: pathlib.Path, panels: list[dict[str, Any]]
):
    """δ′ = 1.25·e^(−½)·δ at R = 1, and the sensitivity `paper` is not proved."""
    curve = panels[0]["curves"][1]
    assert (curve["epsilon"], curve["status"]) == (0.5, "nominal")
    assert curve["delta"] == pytest.approx(1.25 * np.exp(-0.5) * 0.1, rel=1e-5)
    kept = guarantee_tables.kept_convergence(folder)
    claim = f"| 0.5 at δ = 0.0758 ({{}}; {RELATION}) |"
    assert claim.format("nominal") in guarantee_tables.convergence_table(kept)
    kept["rows"][1]["status"] = "proved"  # the word is the row's, not the table's
    assert claim.format("proved") in guarantee_tables.convergence_table(kept)


@pytest.mark.hole
def test_g18_the_curves_tell_the_whole_claim(panels: list[dict[str, Any]]):
    told = [upload_claims.of_curve(curve) for curve in panels[0]["curves"]]
    assert told[:2] == ["no noise", f"ε = 0.5 at δ = 0.0758 (nominal; {RELATION})"]


def test_the_plot_is_a_png(folder: pathlib.Path):
    assert "<svg" in (folder / "convergence.svg").read_text()
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
