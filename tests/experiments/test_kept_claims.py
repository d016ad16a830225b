"""What the pages say of attacks and of the filter at full size, in the kept rows."""

import json
from typing import Any

from commands import ROOT


def kept(name: str) -> Any:
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())


def test_on_mnist_the_private_class_is_recognised_and_fedsva_hides_it() -> None:
    results = kept("attacks/acgan_mnist")
    found = {row["mechanism"]: row for row in results["mechanisms"]}
    assert found["fedsva"]["test_accuracy"] > 0.5
    base, defended = (found[name]["classes"][0] for name in ("none", "fedsva"))
    assert base["private"] and base["recognised"] >= 0.8
    # Noise is "recognised" too (docs/attacks.md): the images must also be near.
    others = results["references"]["real images of other classes"]
    assert base["frechet_distance"] < others["frechet_distance"] / 3
    for distance in ("frechet_distance", "kernel_distance"):
        assert defended[distance] > base[distance]


def test_an_image_comes_back_without_noise_and_never_at_epsilon_one() -> None:
    for row in kept("attacks/gradient_inversion")["defences"]:
        if row["mechanism"] == "none":
            assert row["psnr_min"] >= 25
        elif row["mechanism"] != "gaussian":
            assert row["psnr_max"] < 10


def test_planted_bugs_are_flagged_and_correct_code_in_no_seed() -> None:
    results = kept("attacks/planted_bugs")
    for row in results["rows"]:
        assert len(row["planted"]["flagged"]) > results["seeds"] / 2, row["bug"]
        assert not row["correct"]["flagged"], row["bug"]


def test_over_trained_examples_leak_and_small_epsilon_holds_one_half() -> None:
    rows = kept("attacks/membership")["rows"]
    last = [row for row in rows if row["round"] == max(one["round"] for one in rows)]
    for row in last:
        if row["mechanism"] == "none":
            assert row["auc"] >= 0.65
        elif row["epsilon"] == 0.01:
            assert row["auc_low"] < 0.5 < row["auc_high"]


def test_mnist_at_epsilon_1_per_vote_is_filtered() -> None:
    summary = kept("influence/mnist_iid")["summary"]
    assert summary["num_runs"] == 8
    assert summary["recall"] >= 0.95 and summary["precision"] >= 0.9
