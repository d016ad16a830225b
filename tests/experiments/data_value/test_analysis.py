"""The registered verdicts of experiment A can come out either way."""

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism

from experiments.data_value import analysis, registered
from experiments.data_value.registered import NOISES, STEPS

ARMS = {one.arm for one in registered.HYPOTHESES}
PLACEBOS = {one.placebo for one in registered.HYPOTHESES}


def _rows(gain: float, area: float = 0.8) -> list[dict]:
    """Arms that are `gain` points more accurate than uniform at every noise."""
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(registered.FEDERATIONS):
        arms = {}
        for arm in sorted(ARMS | PLACEBOS | {"uniform"}):
            better = gain if arm in ARMS else 0.0
            arms[arm] = {
                "factors": {"1": 80},
                "noises": {
                    f"{sigma:g}": {
                        "accuracy": 0.7
                        + better / 100
                        - 0.1 * np.log(sigma)
                        # the same for all arms of a federation, as halves are shared
                        + rng.normal(0, 0.002),
                        "tpr": 0.1 - 0.03 * np.log(sigma) + rng.normal(0, 1e-4),
                    }
                    for sigma in NOISES
                },
            }
        rows.append(
            {
                "seed": seed,
                "arms": arms,
                "no_noise": {"area": area},
                "value_reliability": 0.9,
                "ratio_reliability": 0.9,
            }
        )
    return rows


def _verdicts(rows: list[dict], ledger: str) -> set[str]:
    found = analysis.findings({"mnist": rows, "adult": rows}, ledger)
    assert len(found) == len(registered.QUESTIONS)
    return {one.verdict for one in found}


@pytest.mark.parametrize(
    "ledger",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == "equal mean epsilon"))
        for name in registered.LEDGERS
    ],
)
def test_a_gain_is_a_yes_and_none_a_no(ledger: str) -> None:
    assert _verdicts(_rows(4.0), ledger) == {"yes"}
    assert _verdicts(_rows(0.0), ledger) == {"no"}


def test_an_attack_that_sees_nothing_voids_the_experiment() -> None:
    assert _verdicts(_rows(4.0, area=0.6), "equal TPR") == {"void"}


def test_there_is_no_verdict_before_all_rows_are_there() -> None:
    with pytest.raises(ValueError, match="399 of 400"):
        _verdicts(_rows(4.0)[:-1], "equal TPR")


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.4])
def test_epsilon_is_above_the_exact_one(factor: float) -> None:
    bound = analysis.epsilon(factor, 2.0)
    exact = gaussian_mechanism.get_epsilon_gaussian(
        2.0 / (factor * np.sqrt(STEPS)), registered.DELTA
    )
    assert exact <= bound <= 1.1 * exact
