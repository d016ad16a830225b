"""Experiment C's fit finds what tables were drawn with: it can say yes and no."""

import numpy as np
import pytest

from experiments.reproduce import mixed_baselines as mixed

# A proposal need not be the best fit, and noise far beyond θ leaves nothing.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Best performing initialization"),
    pytest.mark.filterwarnings("ignore:overflow encountered in power"),
]
_FACTORS = {"time_varying": 0.8, "reestimation": 0.7, "dpa": 0.6, "fedsdp": 0.5}


def drawn(fedsva: float, is_mixed: bool) -> mixed.Scenario:
    """Tables of known noise: NbAFL and three others in both, FedAvg 73 and 78."""
    rows = [
        (0.0, 0.1, 0.5 / epsilon, place, later, place == own)
        for later, own in ((False, 3), (True, 4))
        for place in (-1, 0, 1, own)
        for epsilon in (0.2, 0.3, 0.4, 0.5)
    ]
    cells = mixed.Cells(*map(np.array, zip(*rows, strict=True)))
    scenario = mixed.Scenario(cells, 2.0, ((73.0, 0.05), (78.0, 0.05)))
    point = {"theta": 2.0, "beta": 2.0, "rho": 1.0, "old": 73.0, "new": 78.0}
    point = {
        name: np.full((1, 1), value)
        for name, value in (point | _FACTORS | {"fedsva": fedsva}).items()
    }
    (truth,) = mixed.predicted(scenario, point, is_mixed)
    noise = np.random.default_rng(1).normal(0, 0.3, len(rows))
    return scenario._replace(cells=cells._replace(accuracy=truth + noise))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fedsva", "is_mixed", "word"),
    [(1.0, True, "yes"), (0.4, True, "no"), (0.4, False, "no")],
)
def test_the_verdict_follows_the_truth(fedsva: float, is_mixed: bool, word: str):
    found = mixed.compute(drawn(fedsva, is_mixed), draws=20_000)
    assert found["verdict"].startswith(word)
    reading = found["readings"]["mixed" if is_mixed else "own"]
    assert reading["factor"][1] <= fedsva <= reading["factor"][2]
    assert (found["log_bayes_factor_mixed"] > 3) == is_mixed


@pytest.mark.parametrize(
    ("own", "older", "tau", "word"),
    [
        ((0.3, 0.5), (0.4, 0.7), 1.0, "no"),
        ((0.3, 0.5), (0.9, 1.1), 1.0, "yes"),
        ((0.3, 0.5), (0.5, 2.0), 1.0, "undecided"),
        ((0.9, 1.1), (0.9, 1.1), 1.0, "undecided"),
        ((0.3, 0.5), (0.4, 0.7), 4.0, "void"),
    ],
)
def test_the_rules_draw_every_verdict(own, older, tau: float, word: str):
    readings = {
        name: {"factor": [1.0, *ends], "tau": [tau], "effective_draws": 2_000}
        for name, ends in (("own", own), ("mixed", older))
    }
    assert mixed.verdict(readings).startswith(word)
    assert mixed.verdict(readings, least=3_000).startswith("not read")
