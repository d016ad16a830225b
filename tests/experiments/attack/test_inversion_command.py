"""`--attack=gradient_inversion`, as typed: an image comes back, and noise hides it."""

import json
import pathlib

import numpy as np
import pytest
from commands import assert_resumed, results, succeeds

from experiments.attack import gradient_inversion
from experiments.attack.inversion_defences import Defence
from fedsvp_jax.attacks import gradient_inversion as inversion
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data import sources

TINY = (
    "experiments.attack",
    "--attack=gradient_inversion",
    "--model=mlp",
    "--inversion_victims=1",
    "--inversion_defences=none:paper,nbafl:per_example",
    "--inversion_noise_stds=",
    "--inversion_steps=300",
    "--inversion_restarts=4",
)


@pytest.mark.slow
def test_an_image_comes_back_noise_hides_it_and_resume_repeats_the_bytes(
    tmp_path: pathlib.Path,
):
    folder = tmp_path / "run"
    done = succeeds(*TINY, f"--output_dir={folder}")
    assert "mean image" in done.stdout
    found = results(folder)
    quality = {
        (row["mechanism"], row["match"]): row["psnr_mean"] for row in found["defences"]
    }
    assert min(quality["none", "l2"], quality["none", "cosine"]) > 25
    assert max(quality["nbafl", "l2"], quality["nbafl", "cosine"]) < 10
    assert all(
        row["labels_read"] == 1 and row["noise_over_gradient"] == 0
        for row in found["defences"]
        if row["mechanism"] == "none"
    )
    assert (folder / "inversion.png").stat().st_size > 1000
    config = json.loads((folder / "config.json").read_text())
    assert config["defences"] == ["none_paper", "nbafl_per_example"]

    kept = (folder / "pieces" / "none_paper.json").stat().st_mtime_ns
    assert_resumed(TINY, folder, "nbafl_per_example")
    assert (folder / "pieces" / "none_paper.json").stat().st_mtime_ns == kept


@pytest.mark.parametrize(
    ("name", "sensitivity", "status", "delta"),
    [
        ("none", "paper", None, None),
        ("nbafl", "update_clip", "proved", 1e-5),
        # Of one private image: R = 1.
        ("fedsva", "paper", "nominal", 1.25 * np.exp(-0.5) * 1e-5),
    ],
)
def test_a_row_tells_what_is_claimed_of_the_upload_that_was_inverted(
    name: str, sensitivity: str, status: str | None, delta: float | None
) -> None:
    """Without a search: the answer is a grey image."""
    small = {"dataset": "digits", "model": "mlp"}
    config = resolve(ExperimentConfig(**gradient_inversion.DEFAULTS | small))
    victim = gradient_inversion.make_victim(config, sources.load("digits"), 1)
    grey = np.full(victim.examples.inputs.shape[1:], 0.5)
    (row,) = gradient_inversion.attack_defence(
        config,
        victim,
        [inversion.Search("l2", steps=8, restarts=1, tv_weight=0.0)],
        Defence(name, sensitivity),
        {"l2": lambda *_, key: (grey, 0.0, 0)},
    )
    assert row["status"] == status
    assert row["delta"] == (delta and pytest.approx(delta, rel=1e-4))
