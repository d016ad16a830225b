"""The registered rules give yes, no and undecided where they should."""

import numpy as np
import pytest

from experiments.decisive.verdicts import Effect, effect, verdicts

NOISE = np.array([-1.2, -0.4, -0.1, 0.1, 0.4, 1.2, -0.8, 0.8, 0.0, 0.0])


def test_a_clear_gain_is_yes_a_clear_lack_of_one_no_and_little_data_undecided() -> None:
    gain, nothing, harm = (effect(NOISE + mean, 1.0) for mean in (3.0, -1.0, -5.0))
    unsure = effect(5 * NOISE + 0.5, 1.0)
    found = verdicts([gain, nothing, harm, unsure])
    assert found == ["yes", "no", "no", "undecided"]


def test_a_gain_that_is_there_and_too_small_to_matter_is_no() -> None:
    small = effect(0.1 * NOISE + 0.5, 1.0)
    assert small.p_yes < 0.001
    assert verdicts([small]) == ["no"]


def test_a_no_needs_reliable_measurements() -> None:
    effects = [effect(NOISE - 1, 1.0)] * 2
    assert verdicts(effects, reliable=[True, False]) == ["no", "undecided"]


def test_holm_takes_all_hypotheses_together() -> None:
    weak = Effect(10, 1.0, 0.1, 1.9, p_yes=0.02, p_no=0.5)
    unknown = Effect(0, 0.0, 0.0, 0.0, p_yes=1.0, p_no=1.0)
    assert verdicts([weak]) == ["yes"]
    assert verdicts([weak, unknown, unknown]) == ["undecided"] * 3


def test_an_effect_is_the_mean_with_students_interval() -> None:
    found = effect([1.0, 2.0, 3.0], 4.0)
    half = 4.302653 / np.sqrt(3)  # Student's quantile of 2 degrees times the error
    assert found.mean == 2
    assert np.allclose([found.low, found.high], [2 - half, 2 + half], atol=1e-5)
    equal = effect([0.0, 0.0], 1.0)
    assert (equal.low, equal.high, equal.p_yes, equal.p_no) == (0, 0, 1, 0)
    for values, worth in (([1.0], 1.0), ([1.0, 2.0], 0.0)):
        with pytest.raises(ValueError, match="an effect needs two or more values"):
            effect(values, worth)
