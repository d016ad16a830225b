"""The conformance vectors: what they say is what a deployed client does."""

import json
import math
import pathlib

import numpy as np
import pytest

from experiments import vectors

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "vectors"


def close(got: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        assert isinstance(got, dict) and got.keys() == wanted.keys()
        return all(close(got[key], wanted[key]) for key in wanted)
    if wanted is None:
        return got is None
    return np.allclose(got, wanted, rtol=1e-6, atol=1e-9)


def test_every_mechanism_with_noise_has_a_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(vectors.names())


@pytest.mark.parametrize("name", vectors.names())
def test_the_written_vectors_are_what_the_mechanism_does(name: str) -> None:
    written = json.loads((FOLDER / f"{name}.json").read_text())
    for case in written["cases"]:
        assert close(vectors.expected(name, case), case["expected"]), case


def test_fedsva_vectors_follow_from_the_printed_formulas() -> None:
    written = json.loads((FOLDER / "fedsva.json").read_text())
    for case in written["cases"]:
        settings, expected = case["settings"], case["expected"]
        tolerance = case["contribution_ratio"] - 2 * math.log(settings["delta"])
        z = math.sqrt(tolerance) / settings["epsilon"]
        std = z * expected["sensitivity"]
        told = expected["step_noise_std"] or expected["noise_std"]
        assert expected["risk_tolerance"] == pytest.approx(tolerance, rel=1e-6)
        assert told == pytest.approx(std, rel=1e-6)
        effective = 1.25 * math.exp(-tolerance / 2)
        assert expected["delta"] == pytest.approx(effective, rel=1e-5)


def test_clipped_gradients_follow_from_the_printed_formulas() -> None:
    written = json.loads((FOLDER / "nbafl.json").read_text())
    rows = np.asarray(written["gradients"])
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    cases = {case["settings"]["sensitivity"]: case for case in written["cases"]}
    for name, clip, divisor, bound in (
        ("attribute_records", 0.3, 4, 2 * 0.3 / 4),
        ("per_example", 1.0, 10, math.sqrt(2) * 2 * 1.0 / 10),
    ):
        total = np.sum(rows * np.minimum(1, clip / norms), axis=0)
        found = cases[name]["expected"]
        assert found["mean_clipped_gradient"] == pytest.approx(total / divisor)
        assert found["sensitivity"] == pytest.approx(bound)
    assert cases["attribute_records"]["expected"]["clipped_update"] == pytest.approx(
        cases["attribute_records"]["expected"]["mean_clipped_gradient"]
    )
