"""Means and gaps over seeds: intervals from two seeds on, over common seeds only."""

from typing import Any

import numpy as np
import pytest

from experiments.reproduce import estimates


def group(seeds: list[int], last5: list[float | None]) -> dict[str, Any]:
    return {"seeds": seeds, "last5": last5}


def test_three_seeds_have_students_interval_and_one_has_none() -> None:
    known = estimates.of_seeds([0.60, 0.62, 0.64])
    assert known is not None and known.interval is not None
    # t(2 degrees of freedom, 97.5 %) = 4.303; standard error 2/sqrt(3) points
    half = 4.3027 * 2 / 3**0.5
    assert known.value == pytest.approx(62)
    assert known.interval == pytest.approx((62 - half, 62 + half), rel=1e-4)
    assert known.text("%") == "62.0 % (95 % interval 57.0 to 67.0, 3 seeds)"
    assert known.cell() == "62.00 [57.03, 66.97]"
    one = estimates.of_seeds([0.6, None])
    assert one is not None and one.cell() == "60.00"
    assert one.text("%") == "60.0 % (1 seed, no interval)"
    assert estimates.of_seeds([None]) is None


def test_pairing_sees_what_the_seeds_spread_hides() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0.5, 0.1, 20)
    gap = estimates.paired([*(base + 0.01 + rng.normal(0, 0.005, 20))], [*base])
    assert gap is not None and gap.interval is not None
    assert 0 < gap.interval[0] < gap.value < gap.interval[1] < 2
    same = estimates.paired([0.25, 0.5], [0.125, 0.375])
    assert same == estimates.Estimate(12.5, (12.5, 12.5), 2)
    with pytest.raises(ValueError, match="shorter"):
        estimates.paired([1.0, 2.0], [1.0])


def test_a_gap_and_a_share_take_the_common_seeds() -> None:
    """Seed 2 of the first and seed 0 of the second would change every number."""
    first = group([1, 2], [0.50, 0.9])
    second = group([0, 1], [0.1, 0.51])
    gap = estimates.gap(first, second)
    assert gap is not None
    assert gap.text("points", "+.1f") == "−1.0 points (1 seed, no interval)"
    assert estimates.share(first, second) == pytest.approx(50 / 51)
    assert estimates.gap(first, group([0], [0.1])) is None
    assert estimates.share(first, group([0], [0.1])) is None
    whole = estimates.gap(group([0, 1], [0.52, 0.54]), second)
    assert whole is not None and whole.interval is not None
    assert whole.value == pytest.approx(22.5)
    none = estimates.gap(group([0], [0.3]), group([0], [0.3]))
    assert none is not None and none.text("points", "+.1f").startswith("0.0 points")
