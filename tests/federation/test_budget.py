"""From a budget to noise: what is solved for spends the promise and no more."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from promised import run_epsilon, uploads_in_a_row
from small_runs import digits, small

from fedsvp_jax import federation, mechanisms
from fedsvp_jax.accounting.promise import SpendingPlan
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.federation import budget, plan

NAMES = [name for name in mechanisms.mechanism_names() if name != "none"]
QUICK_BASIC = ("nbafl", "gaussian")
TOTAL = 2.0


def solvable(name: str, accounting: str, **changes) -> ExperimentConfig:
    """Ten rounds; the analytic calibration where the mechanism has it."""
    printed = name in ("fedsva", "fedsdp")
    settings = {
        "mechanism": name,
        "total_epsilon": TOTAL,
        "total_accounting": accounting,
        "num_rounds": 10,
        "delta": 1e-6,
        "calibration": "classical" if printed else "analytic",
        "contribution_release": "worst_case",
        "solve": "noise",
    }
    return small(**(settings | changes))


def spent(config: ExperimentConfig) -> float:
    return run_epsilon(config, plan.make_configured_mechanism(config)[0])


@pytest.mark.hole
@pytest.mark.parametrize(
    ("name", "accounting"),
    [
        *((name, "rdp") for name in NAMES),
        *(  # a sum of ε: one mechanism that is solved by ε, one by its noise
            pytest.param(
                name, "basic", marks=() if name in QUICK_BASIC else pytest.mark.slow
            )
            for name in NAMES
        ),
    ],
)
def test_the_promise_is_spent_and_not_exceeded(name: str, accounting: str) -> None:
    config = solvable(name, accounting)
    solved = federation.solve_noise(config)
    assert spent(solved) <= TOTAL
    setting, more_is_less = mechanisms.noise_setting(name)
    value = getattr(solved, setting)
    if value < 0.999 or not more_is_less:  # else the calibration's proof ends at ε = 1
        assert spent(solved) > TOTAL * (1 - 1e-3)
    factor = 1.01 if more_is_less else 1 / 1.01
    less_noise = dataclasses.replace(solved, **{setting: value * factor})
    try:
        assert spent(less_noise) > TOTAL
    except ValueError as error:
        assert "epsilon must be" in str(error)


def test_noise_in_the_steps_is_solved_for_the_batches_that_there_are() -> None:
    """Clients smaller than --batch_size have smaller batches, of more sensitivity."""
    steps = {"clipping": "per_example", "batch_size": 500, "partition": "iid"}
    config = solvable("gaussian", "rdp", **steps)
    program = federation.build([config], digits())
    (solved,) = program.configs
    assert program.plan.recipe.batch_size < config.batch_size
    told = cell_of(program.cells.mechanism, 0)
    assert TOTAL * (1 - 1e-3) < run_epsilon(solved, told) <= TOTAL * (1 + 1e-6)


def test_pld_is_solved_for_too() -> None:
    solved = federation.solve_noise(solvable("nbafl", "pld", num_rounds=3))
    assert TOTAL * (1 - 1e-3) < spent(solved) <= TOTAL


@pytest.mark.hole
def test_more_epsilon_is_less_noise() -> None:
    """Steps on Poisson batches; promises of 40, 50 and 90 had the same noise."""
    steps = {"clipping": "per_example", "batches": "poisson", "batch_size": 5}
    sizes: dict[str, Any] = {"min_num_examples": 500, "max_num_examples": 500}
    multipliers = []
    for total in (40.0, 50.0, 90.0):
        config = solvable(
            "gaussian",
            "pld",
            num_rounds=100,
            relation="add_remove",
            local_steps=10,
            **steps | {"total_epsilon": total},
        )
        solved = federation.solve_noise(config, **sizes)
        _, mechanism = plan.make_configured_mechanism(solved, **sizes)
        planned = SpendingPlan(budget.account_of(solved, mechanism))
        spent = planned.promised(planned.always)
        assert total * (1 - 1e-4) < spent <= total
        multipliers.append(float(mechanism.least_multiplier))
    assert multipliers[0] > multipliers[1] * 1.05 > multipliers[2] * 1.1


@pytest.mark.hole
def test_the_noise_is_solved_once_for_all_seeds_and_builds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every seed of a sweep asked the composition anew, and each of its two builds."""
    tried: list[float] = []
    promised = SpendingPlan.promised

    def counted(self: SpendingPlan, *uploads: Any) -> float:
        tried.append(float(self.precision[-1]))
        return promised(self, *uploads)

    monkeypatch.setattr(SpendingPlan, "promised", counted)
    configs = [
        solvable("nbafl", "rdp", seed=seed, total_epsilon=total)
        for total in (2.5, 3.5)
        for seed in range(3)
    ]
    for _ in range(2):
        program = federation.build(configs, digits())
    values = [config.epsilon for config in program.configs]
    assert len({*values[:3]}) == len({*values[3:]}) == 1 and values[0] < values[3]
    assert [config.seed for config in program.configs] == [0, 1, 2, 0, 1, 2]
    assert len(tried) <= 2 * 40 + 2 * len(configs)  # the allowance asks once a cell


def test_what_cannot_be_had_is_refused() -> None:
    with pytest.raises(ValueError, match="solve=noise needs total_epsilon"):
        federation.solve_noise(solvable("nbafl", "rdp", total_epsilon=None))
    released = {"contribution_release": "laplace", "release_epsilon": 5.0}
    with pytest.raises(ValueError, match="is less than one upload costs by rdp"):
        federation.solve_noise(solvable("fedsva", "rdp", total_epsilon=0.1, **released))
    with pytest.raises(ValueError, match="no setting scales the noise"):
        federation.solve_noise(solvable("none", "rdp"))


def test_noise_is_solved_for_the_uploads_that_a_client_may_send() -> None:
    often = federation.solve_noise(solvable("nbafl", "rdp", num_rounds=3))
    limited = solvable("nbafl", "rdp", num_rounds=50, max_uploads=3)
    assert federation.solve_noise(limited).epsilon == pytest.approx(often.epsilon)
    made = federation.build([limited], digits())
    assert uploads_in_a_row(cell_of(made.cells.allowance, 0)) == 3


def test_what_ends_the_search_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """The classical formula is proved below ε = 1 only, far from this promise."""
    changes = {"calibration": "classical", "total_epsilon": 1e3}
    solved = federation.solve_noise(solvable("nbafl", "rdp", **changes))
    assert 0.99 < solved.epsilon < 1
    (text,) = caplog.messages
    assert "solve=noise stops at epsilon = 1" in text
    assert "epsilon must be < 1 with calibration='classical'" in text


def test_a_setting_that_does_not_scale_the_noise_is_not_solved_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    another = ("noise_multiplier", False)
    monkeypatch.setattr(budget, "noise_setting", lambda name: another)
    with pytest.raises(ValueError, match="not change the noise of mechanism nbafl"):
        federation.solve_noise(solvable("nbafl", "rdp", total_epsilon=1e3))


def test_rounds_that_all_end_before_the_first_private_query_name_private_from() -> None:
    query = {"clipping": "attribute_records", "partition": "iid", "delta": 1e-5}
    config = solvable("gaussian", "rdp", num_rounds=2, private_from=2, **query)
    with pytest.raises(ValueError, match="gaussian; lower private_from"):
        federation.solve_noise(config)


@pytest.mark.hole
def test_a_delta_at_which_no_noise_suffices_is_named_as_the_default() -> None:
    """The advice was to lower --delta, which nobody had typed."""
    config = small(mechanism="gaussian", clipping="update_clip", num_rounds=100)
    config = dataclasses.replace(config, total_epsilon=3.0, solve="noise", delta=0.1)
    message = r"at delta = 0\.1 of one upload \(1 / batch_size unless it is stated\)"
    with pytest.raises(ValueError, match=message):
        federation.build([config], digits())


def test_whether_a_run_is_over_is_compiled_once() -> None:
    """Every call that asked made a program of its own."""
    made = federation.build([small(max_uploads=2)], digits())
    admitted = np.ones((1, 7), bool)
    for done, sent in ((0, 0), (3, 1), (9, 2)):
        over = made.is_over(np.full((1, 7), sent, np.int32), admitted, done)
        assert over.tolist() == [sent == 2]
    assert made.is_over.func._cache_size() == 1
