"""A promise against cohorts that budgets, turns and the influence filter thin.

Who is admitted changes from round to round here, in whatever way: a promise is kept for
every choice that may follow what was released before.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from promised import Played

from fedsvp_jax.accounting import FilterCost
from fedsvp_jax.accounting.settings import PromiseSettings

pytestmark = pytest.mark.across("cohorts, filters and promises at once")

CLIENTS, SIZE, ROUNDS = 12, 4, 9
TOTAL = 4.0
CLIPPED = {"sensitivity": "update_clip", "relation": "add_remove"}
SHARED = CLIPPED | {"noise_trust": "secure_aggregation", "epsilon": 0.9, "delta": 1e-5}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "a cohort's sum": ("dp_fedavg", {"noise_multiplier": 2.0}),
    "shared noise": ("nbafl", {"calibration": "analytic", "colluders": 2} | SHARED),
    "every upload": ("nbafl", {"epsilon": 0.9, "delta": 1e-5} | CLIPPED),
}
FILTERED = FilterCost(1, 60.0, 0.1, 1e-6, CLIENTS - 1, 0.01)


def played(kind: str, **more: Any) -> Played:
    name, own = KINDS[kind]
    return Played(
        name,
        PromiseSettings(total_epsilon=TOTAL),
        num_clients=CLIENTS,
        cohort_size=SIZE,
        num_rounds=ROUNDS,
        **own,
        **more,
    )


@pytest.mark.hole
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cohorts", ["drawn", "cyclic"])
@pytest.mark.parametrize("filtered", [False, True])
@given(seed=st.integers(0, 2**31), share=st.sampled_from([0.5, 0.8, 0.95]))
@settings(max_examples=8, deadline=None)
def test_a_proved_promise_survives_whatever_thins_the_cohorts(
    kind: str, cohorts: str, filtered: bool, seed: int, share: float
) -> None:
    """Before, turns of 2 and 3 admitted clients uploaded under a promise made for 4."""
    rng = np.random.default_rng(seed)
    found = played(
        kind,
        cohorts=cohorts,
        filter_cost=FILTERED if filtered else None,
        admitted=lambda round_num: rng.random(CLIENTS) < share,
    )
    assert found.account.proved
    assert found.spent() <= TOTAL
    least = SIZE if found.mechanism.claim.central else 1
    assert all(size == 0 or size >= least for size in found.sizes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cohort_that_is_not_whole_ends_nobody_elses_turn(kind: str) -> None:
    """One client of one cohort is rejected: its cohort waits, the others go on."""
    whole = played(kind, cohorts="cyclic")
    one_out = np.arange(CLIENTS) != 3
    thin = played(kind, cohorts="cyclic", admitted=lambda round_num: one_out)
    central = whole.mechanism.claim.central
    lost = SIZE if central else 1
    uploads = whole.account.uploads
    assert (uploads == uploads[0]).all() and uploads[0] > 0
    assert (thin.account.uploads == uploads[0]).sum() == CLIENTS - lost
    assert (thin.account.uploads == 0).sum() == lost
