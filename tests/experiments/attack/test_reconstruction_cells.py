"""The table of many images: a cell a defence, with the increase over FedAvg."""

import math
from typing import Any

from experiments import upload_claims
from experiments.attack import reconstruction_results

SETTINGS = {
    "dataset": "cifar10",
    "model": "small_cnn",
    "sensitivity": "paper",
    "l2_norm_clip": 20.0,
    "num_clients": 100,
    "cohort_size": 10,
    "num_rounds": 2,
    "attack_mode": "passive",
    "num_attackers": 3,
    "attack_steps": 5,
    "private_attribute": 5,
    "device_kind": "cpu",
    "versions": {"jax": "0"},
}
REFERENCE = {"num_images": 9, "recognised": 0.9, "frechet_distances": {"judge": 1.5}}


def cell(mechanism: str, distances: list[float]) -> dict[str, Any]:
    many = {
        "num_images": 1000,
        "num_real": 50,
        "recognised": [0.5, 0.6, 0.7],
        "frechet_distances": {"judge": distances},
    }
    row = {"mechanism": mechanism, "test_accuracy": 0.8, "many_images": many}
    claim = dict(upload_claims.NOTHING)
    curve = {"round": [1, 2], "recognised": [0.2, 0.4], "frechet_distance": [9.0, 8.0]}
    return {
        "settings": SETTINGS,
        "extractor": "judge",
        "classifier_accuracy": 0.7,
        "mechanisms": [row | claim],
        "many_references": {"real images held out": REFERENCE},
        "curves": {mechanism: curve},
    }


CELLS = {
    "none": cell("none", [10.0, 20.0, 40.0]),
    "fedsva": cell("fedsva", [15.0, 30.0, 60.0]),
    "attribute_records": cell("nbafl", [20.0, 20.0, 40.0]),
}


def test_the_increase_is_paired_by_attacker() -> None:
    """Half as much again for each attacker is +50 % without any spread."""
    none, fedsva, records, held_out = reconstruction_results.final_table(CELLS)
    column = "increase, % (judge)"
    assert none[column] == "" and fedsva[column] == "+50.0 (50.0 to 50.0)"
    mean = math.expm1(math.log(2) / 3)
    half = 4.302653 * math.log(2) / 3  # t at 2 degrees of freedom, times std/sqrt(3)
    low, high = (math.expm1(math.log(2) / 3 + side * half) for side in (-1, 1))
    assert records[column] == f"{100 * mean:+.1f} ({100 * low:.1f} to {100 * high:.1f})"
    assert none["recognised %"] == "60.0 ± 8.2"
    assert held_out["Fréchet distance (judge)"] == "1.50"
    assert reconstruction_results._increase([3.0], [2.0]) == "+50.0"
