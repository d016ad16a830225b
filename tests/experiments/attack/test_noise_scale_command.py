"""`python -m experiments.attack`, as typed: R leaks as published, and only then."""

import json
import math
import pathlib
from typing import Any

import numpy as np
import pytest
from commands import succeeds

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import build, loading

# A large delta makes T small, hence R easy to read from a small model's weights.
SETTINGS = {
    "model": "mlp",
    "epsilon": 0.1,
    "delta": 0.5,
    "num_rounds": 2,
    "cohort_size": 15,
    "seed": 3,
}
RELEASES = ("raw", "worst_case", "laplace", "randomized_response")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("attack") / "run"
    done = succeeds(
        "experiments.attack",
        "--attack=noise_scale",
        f"--output_dir={path}",
        *(f"--{name}={value}" for name, value in SETTINGS.items()),
    )
    assert all(release in done.stdout for release in RELEASES)
    return path


@pytest.fixture(scope="module")
def results(folder: pathlib.Path) -> dict[str, Any]:
    return json.loads((folder / "results.json").read_text())


@pytest.fixture(scope="module")
def table(results: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["release"]: row for row in results["releases"]}


def column(results: dict[str, Any], release: str, name: str) -> np.ndarray:
    rows = [row for row in results["uploads"] if row["release"] == release]
    return np.asarray([row[name] for row in rows])


def test_what_is_attacked_is_what_a_run_with_these_settings_uploads(
    results: dict[str, Any],
):
    config = resolve(ExperimentConfig(**SETTINGS))
    trainer = Trainer(build([config], loading.load_dataset(config)))
    state = trainer.initial_state()
    for number in range(config.num_rounds):
        state, metrics = trainer.advance(state, number, 1)
        clients = metrics.clients
        place = slice(15 * number, 15 * (number + 1))
        for name, truth in (
            ("client", clients.client_id),
            ("noise_std", clients.noise.noise_std),
            ("contribution_ratio", clients.estimation.contribution_ratio),
        ):
            seen = column(results, "raw", name)[place]
            np.testing.assert_allclose(seen, truth[0, 0], rtol=1e-5, atol=1e-6)


def test_the_std_is_read_within_its_expected_error_under_every_release(
    results: dict[str, Any], table: dict[str, dict[str, Any]]
):
    expected = results["expected_std_relative_error"]
    assert expected == 1 / math.sqrt(2 * results["num_parameters"])
    for row in table.values():
        assert row["std_relative_error"] < 1.5 * expected


def test_r_is_recovered_within_its_expected_error_as_published(
    table: dict[str, dict[str, Any]],
):
    row = table["raw"]
    assert row["ratio_error"] < row["ratio_standard_error"]
    assert row["ratio_error"] < row["guess_error"] / 3
    assert row["least_error"] == 0


@pytest.mark.parametrize("release", RELEASES[1:])
def test_a_rigorous_release_leaves_more_error_than_its_epsilon_must(
    release: str, table: dict[str, dict[str, Any]]
):
    row = table[release]
    epsilon = {"worst_case": 0.0}.get(release, 0.1)
    np.testing.assert_allclose(row["epsilon"], epsilon)
    np.testing.assert_allclose(
        row["least_error"], math.exp(-epsilon) * row["guess_error"]
    )
    assert row["ratio_error"] > row["least_error"] > 0
    assert row["ratio_error"] > 5 * table["raw"]["ratio_error"]


@pytest.mark.parametrize("release", RELEASES[1:])
def test_what_is_recovered_is_the_released_ratio_and_not_r(
    release: str, results: dict[str, Any]
):
    found = column(results, release, "recovered_ratio")
    released = column(results, release, "released_ratio")
    errors = column(results, release, "standard_error")
    assert np.all(np.abs(found - released) < 5 * errors)


def test_the_configuration_says_what_was_attacked(folder: pathlib.Path):
    config = json.loads((folder / "config.json").read_text())
    assert config["attack"] == "noise_scale"
    assert tuple(config["contribution_release"]) == RELEASES
    assert config["seed"] == 3 and config["model"] == "mlp"
