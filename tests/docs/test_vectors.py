"""The conformance vectors: what they say is what a deployed client does."""

import json
import math
import pathlib
from functools import partial

import jax
import numpy as np
import pytest

from experiments import vectors

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "vectors"


def test_every_mechanism_with_noise_has_a_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(vectors.names())


@pytest.mark.parametrize("name", vectors.names())
def test_the_written_vectors_are_what_the_mechanism_does(name: str) -> None:
    written = json.loads((FOLDER / f"{name}.json").read_text())
    same = partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-9)
    for case in written["cases"]:
        jax.tree.map(same, vectors.expected(name, case), case["expected"])


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
