"""The registered verdicts of experiment B can come out either way."""

import numpy as np
import pytest

from experiments.one_attribute import docs_page, registered


def _rows(gain: float, room: float = 5.0) -> list[dict]:
    """All registered rows, "attribute records" `gain` points above "all records"."""
    rng = np.random.default_rng(0)
    level = dict.fromkeys(registered.ARMS, 0.9)
    level["attribute records"] += gain / 100
    level["left out"] -= room / 100
    return [
        {
            "arm": arm,
            "clients": clients,
            "seed": seed,
            "final5_accuracy": level[arm] + rng.normal(0, 0.003),
            "final5_private_accuracy": 0.8,
            "epsilon": None,
            "status": None,
        }
        for arm in registered.ARMS
        for clients in registered.CLIENTS
        for seed in registered.SEEDS
    ]


@pytest.mark.parametrize(("gain", "verdict"), [(2.0, "yes"), (-1.0, "no"), (0.0, "no")])
def test_a_gain_is_a_yes_and_none_a_no(gain: float, verdict: str) -> None:
    answer = docs_page.answer(_rows(gain))
    assert answer.count(f"**{verdict}**") == len(registered.CLIENTS)


def test_there_is_no_verdict_before_all_rows_are_there() -> None:
    assert "No verdict" in docs_page.answer(_rows(2.0)[:-1])


def test_records_that_do_not_matter_void_the_experiment() -> None:
    answer = docs_page.answer(_rows(2.0, room=0.5))
    assert answer.count("**void**") == len(registered.CLIENTS)
