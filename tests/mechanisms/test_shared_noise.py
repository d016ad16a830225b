"""Noise that a cohort shares: the sum carries it, and colluders know their own part."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from ledgers import Book, record
from published import make, published, says, upload

from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.core.structs import MechanismState
from fedsvp_jax.mechanisms import Mechanism, shared_noise
from fedsvp_jax.mechanisms.subsampling import SampledSteps

COHORT, COLLUDERS, SMALLEST = 10, 3, 40.0


def shared(name: str = "nbafl", **changes) -> Mechanism:
    settings = {"noise_trust": "secure_aggregation", "colluders": COLLUDERS}
    settings |= {"cohort_size": COHORT, "min_num_examples": SMALLEST, "epsilon": 0.5}
    settings |= {"clipping": "attribute_records"}
    return make(name, **(settings | changes))


def share_of(mechanism: Mechanism, num_examples: int):
    return upload(mechanism, jnp.zeros((20_000,)), num_examples=num_examples)


@pytest.mark.parametrize("choice", ["attribute_records", "weight_clip", "paper"])
def test_every_client_adds_the_same_share_of_the_noise_of_the_smallest(choice: str):
    mechanism = shared(clipping=choice)
    alone = shared(clipping=choice, noise_trust="nobody")
    _, _, whole = share_of(alone, int(SMALLEST))
    for held in (40, 400):
        noised, _, info = share_of(mechanism, held)
        root = math.sqrt(COHORT - COLLUDERS)
        np.testing.assert_allclose(np.std(noised["w"]), info.noise_std, rtol=0.03)
        product = info.noise_multiplier * info.sensitivity
        says(info, noise_std=whole.noise_std / root, sensitivity=whole.sensitivity)
        says(info, noise_std=product)
    assert mechanism.basis.central and mechanism.uniform_weights
    assert not alone.basis.central
    assert "are together at most 3" in mechanism.basis.assumptions
    assert shared("fedsva", contribution_release="worst_case").basis.central


def three_rounds(mechanism: Mechanism, *, present: int, colluders: int) -> Book:
    """What was in the sums of three rounds, of the clients that stayed."""
    _, _, info = share_of(mechanism, 40)
    book = Book(COHORT, mechanism, who={"colluders": colluders})
    z = info.noise_multiplier
    for _ in range(3):
        std = z * info.sensitivity
        record(book, range(present), multiplier=z, std=std, weights=1 / present)
    return book


@pytest.mark.parametrize("dropouts", range(1, COHORT - 1))
def test_dropouts_and_colluders_share_h_and_the_rows_count_who_was_in_the_sum(
    dropouts: int,
):
    mechanism = shared()
    z, planned = float(mechanism.least_multiplier), COHORT - COLLUDERS
    promised = composed_epsilon("gdp", 3 / z**2, 1e-5)
    book = three_rounds(mechanism, present=COHORT - dropouts, colluders=1)
    spent = book.epsilon_spent("gdp", 1e-5, view="colluders")
    sharers = COHORT - dropouts - 1
    exact = composed_epsilon("gdp", 3 / z**2 * planned / sharers, 1e-5)
    assert spent == pytest.approx(exact)
    assert (spent <= promised * (1 + 1e-6)) == (dropouts + 1 <= COLLUDERS)


def test_the_promise_of_the_sum_holds_against_the_colluders_exactly():
    mechanism = shared()
    book = three_rounds(mechanism, present=COHORT, colluders=COLLUDERS)
    z = float(mechanism.least_multiplier)
    for view, sharers in (("colluders", COHORT - COLLUDERS), ("observer", COHORT)):
        precision = 3 / z**2 * (COHORT - COLLUDERS) / sharers
        exact = composed_epsilon("gdp", precision, 1e-5)
        assert book.epsilon_spent("gdp", 1e-5, view=view) == pytest.approx(exact)


def test_a_mechanism_from_outside_that_claims_another_thing_or_remembers_is_refused():
    """The other reasons hold for mechanisms built in: tests/test_refusals.py."""
    config = published("gaussian", noise_trust="secure_aggregation", colluders=3)
    alone = make("gaussian")
    kept = {"memory": jnp.zeros(1)}
    for change in (
        {"basis": alone.basis._replace(relation="none")},
        {"basis": alone.basis._replace(view="observer")},
        {"init": lambda _: MechanismState(clients=kept, shared={})},
        {"init": lambda _: MechanismState(clients={}, shared=kept)},
    ):
        with pytest.raises(ValueError, match="for mechanism NAME with clipping"):
            shared_noise.shared(alone._replace(**change), config, "NAME")


def test_rounds_before_the_first_private_query_cost_nothing():
    mechanism = shared(private_from=3, num_rounds=8)
    assert np.all(np.isinf(mechanism.least_multiplier) == (np.arange(8) < 3))
    np.testing.assert_array_equal(mechanism.most_epsilon[:3], 0)
    np.testing.assert_array_equal(mechanism.most_delta[:3], 0)
    assert np.all(mechanism.most_epsilon[3:] > 0)


def test_one_poisson_step_is_one_gaussian_of_the_cohorts_sum():
    """The cohort's sum hides a record as central DP-SGD with the whole noise does."""
    sampled = {"clipping": "per_example", "batches": "poisson", "local_steps": 1}
    sizes = {"batch_size": 10, "max_num_examples": int(SMALLEST)}
    mechanism = shared(relation="add_remove", **sampled, **sizes)
    _, _, info = share_of(mechanism, 40)
    assert mechanism.basis.any_epsilon  # by zCDP, whatever the clients' own formula
    z, root = float(mechanism.least_multiplier), math.sqrt(COHORT - COLLUDERS)
    step = mechanism.step_noise_std(jnp.float32(1.0), round_num=jnp.int32(0))
    np.testing.assert_allclose(step, z * 20.0 / 10 / root, rtol=1e-6)  # of zC/B
    np.testing.assert_allclose(info.step_noise_std, step, rtol=1e-6)
    book = three_rounds(mechanism, present=COHORT, colluders=COLLUDERS)
    for view, sharers in (("colluders", 7), ("observer", 10), ("server", 1)):
        steps = SampledSteps(z * math.sqrt(sharers / 7), 10 / SMALLEST, 3)
        exact = composed_epsilon("rdp", 0.0, 1e-5, steps=steps)
        found = book.epsilon_spent("rdp", 1e-5, view=view)
        assert found == pytest.approx(exact, rel=1e-5)
