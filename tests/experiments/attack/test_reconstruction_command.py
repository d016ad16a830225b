"""`python -m experiments.attack --attack=acgan`, as typed."""

import pathlib

import numpy as np
import pytest
from commands import assert_resumed, results, succeeds

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.federation import build, loading
from fedsvp_jax.run.trainer import Trainer

pytestmark = pytest.mark.slow

SETTINGS = {
    "model": "mlp",
    "num_clients": 6,
    "num_hbc_clients": 2,
    "cohort_size": 6,
    "num_rounds": 2,
    "local_epochs": 1,
    "epsilon": 0.3,
}
LINE = (
    *("experiments.attack", "--attack=acgan", "--attack_steps=3", "--num_images=20"),
    *("--classifier_steps=100", "--num_attackers=2"),
    *(f"--{name}={value}" for name, value in SETTINGS.items()),
)
COMPARED = (*LINE, "--mechanisms=none,fedsva")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("acgan") / "run"
    printed = succeeds(*COMPARED, f"--output_dir={path}").stdout
    assert "fedsva" in printed and "(real" in printed
    path.with_name("printed").write_text(printed)
    return path


@pytest.mark.parametrize("mechanism", ["none", "fedsva"])
def test_a_passive_attacker_leaves_the_federation_as_it_is(
    folder: pathlib.Path, mechanism: str
) -> None:
    """That the second mechanism's was another run's noise went unseen for a while."""
    config = resolve(ExperimentConfig(mechanism=mechanism, **SETTINGS))
    trainer = Trainer(build([config], loading.load_dataset(config)))
    state = trainer.initial_state()
    for round_num in range(2):
        state, metrics = trainer.advance(state, round_num, 1)
    (row,) = (
        row for row in results(folder)["mechanisms"] if row["mechanism"] == mechanism
    )
    assert list(row["attackers"]) == ["4", "5"]
    accuracy = float(metrics.test_accuracy[0, 0])
    np.testing.assert_allclose(row["test_accuracy"], accuracy, atol=1e-6)


def test_the_table_is_what_the_results_say(folder: pathlib.Path) -> None:
    found = results(folder)
    assert found["classifier_accuracy"] > 0.8
    base, defended = found["mechanisms"]
    assert base["status"] is None and defended["status"] == "nominal"
    last = [scores["frechet_distance"] for scores in base["attackers"].values()]
    assert base["frechet_distance"] == pytest.approx(np.mean(last))
    assert base["frechet_distance_std"] == pytest.approx(np.std(last))
    ratio = defended["frechet_distance"] / base["frechet_distance"]
    lines = folder.with_name("printed").read_text().splitlines()
    increase = {line.split()[0]: line.split()[-1] for line in lines if line.strip()}
    assert increase["fedsva"] == f"{100 * (ratio - 1):+.1f}"
    assert not increase["none"].startswith(("+", "-"))
    held_out = found["references"]["real images held out"]
    others = found["references"]["real images of other classes"]
    assert held_out["recognised"] > 0.8 > others["recognised"]
    assert held_out["frechet_distance"] < others["frechet_distance"]


def test_a_killed_run_resumes_to_the_same_results(folder: pathlib.Path) -> None:
    """As a kill in the second mechanism leaves it."""
    page = (folder / "reconstructed.html").read_bytes()
    assert page.count(b"<canvas") == 3 * 8 and b'data-pixels="[[[' in page
    assert_resumed(COMPARED, folder, "fedsva")
    assert (folder / "reconstructed.html").read_bytes() == page
