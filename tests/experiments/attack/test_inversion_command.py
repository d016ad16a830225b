"""`--attack=gradient_inversion`, as typed: an image comes back, and noise hides it."""

import json
import math
import pathlib

import pytest
from commands import assert_resumed, results, succeeds

TINY = (
    "experiments.attack",
    "--attack=gradient_inversion",
    "--model=mlp",
    "--inversion_victims=1",
    "--inversion_defences=none:paper,nbafl:per_example,fedsva:paper",
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
    shown = (folder / "inversion.html").read_text()
    assert shown.count("<canvas") == 1 + len(found["defences"])
    pixels = found["defences"][0]["images"][0]
    assert f'data-pixels="{json.dumps(pixels, separators=(",", ":"))}"' in shown
    config = json.loads((folder / "config.json").read_text())
    defences = ["none:paper", "nbafl:per_example", "fedsva:paper"]
    assert config["inversion_defences"] == defences
    claims = {
        row["mechanism"]: (row["status"], row["delta"]) for row in found["defences"]
    }
    assert claims["none"] == (None, None)
    assert claims["nbafl"] == ("proved", pytest.approx(1e-5))
    # Of one private image: R = 1.
    delta = pytest.approx(1.25 * math.exp(-0.5) * 1e-5, rel=1e-4)
    assert claims["fedsva"] == ("nominal", delta)

    kept = (folder / "pieces" / "none_paper.json").stat().st_mtime_ns
    assert_resumed(TINY, folder, "nbafl_per_example")
    assert (folder / "pieces" / "none_paper.json").stat().st_mtime_ns == kept
