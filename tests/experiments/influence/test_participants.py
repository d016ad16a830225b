"""Who holds what in a simulation of the filter."""

import numpy as np
import pytest

from experiments.influence.participants import Participants, draw_participants

LABELS = np.arange(1000, dtype=np.int32) % 10


def draw(**changes: object) -> Participants:
    chosen: dict[str, object] = {
        "num_participants": 20,
        "num_warmup": 30,
        "num_train": 20,
        "num_test": 10,
        "partition": "iid",
        "alpha": 0.1,
        "seed": 3,
    }
    return draw_participants(LABELS, **(chosen | changes))  # type: ignore[arg-type]


def test_iid_participants_are_disjoint_and_the_seed_decides():
    found = draw()
    rows = np.concatenate([part.ravel() for part in found])
    assert len(rows) == 30 + 20 * 30 == len(np.unique(rows))
    for a, b in zip(found, draw(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.any(draw(seed=4).train != found.train)


def test_more_participants_than_the_pool_share_rows_but_never_the_centres():
    found = draw(num_participants=100)
    held = np.concatenate([found.train, found.test], axis=1)
    assert held.shape == (100, 30)
    assert not np.isin(held, found.warmup).any()
    assert all(len(np.unique(own)) == 30 for own in held)


def test_dirichlet_participants_hold_few_classes_in_both_parts():
    found = draw(partition="dirichlet")
    for train, test in zip(found.train, found.test, strict=True):
        shares = np.bincount(LABELS[train], minlength=10) / 20
        assert shares.max() >= 0.2
        both = np.isin(LABELS[test], LABELS[train]).mean()
        assert both >= 0.5
    assert not np.isin(found.train, found.warmup).any()
    largest = [np.bincount(LABELS[t], minlength=10).max() for t in found.train]
    assert np.mean(largest) > 10


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match="partition must be iid or dirichlet"):
        draw(partition="paper")
    with pytest.raises(ValueError, match="warmup_examples 990"):
        draw(num_warmup=990)
