"""Games with real local training: the worst record moves as far as it may."""

import jax
import numpy as np
import pytest
from promised import told

from fedsvp_jax.attacks import audit_training
from fedsvp_jax.attacks.epsilon_bounds import lower_bounds
from fedsvp_jax.mechanisms.clipping import record_bound
from fedsvp_jax.mechanisms.config import PrivateQuerySettings
from fedsvp_jax.round.local_training import TrainingRates, TrainingRecipe

DELTA = 1e-5


def test_local_training_moves_the_pushed_weight_by_eta_c_a_step():
    recipe = TrainingRecipe(batch_size=5, local_epochs=2, gradient="clipped_mean")
    rates = TrainingRates(0.1, 3.0, 0.0, 0.0)
    moved = [
        length
        for replaced in (1, 20)
        for length in audit_training.trained_updates(
            recipe, rates, 20, replaced, key=jax.random.key(3)
        )
    ]
    # One record is in one batch an epoch; all records are in all 4 of them.
    np.testing.assert_allclose(moved, [0.6, -0.6, 2.4, -2.4], rtol=1e-5)


def test_a_record_that_is_left_out_has_no_gradient_and_the_others_push_back():
    replaced = audit_training.neighbours(4, 1, 2.0)
    left_out = audit_training.neighbours(4, 1, 2.0, left_out=True)
    pushes = [[world.inputs[:, 0] for world in pair] for pair in (replaced, left_out)]
    np.testing.assert_array_equal(pushes[0], [[2, 0, 0, 0], [-2, 0, 0, 0]])
    np.testing.assert_array_equal(pushes[1], [[2, -2, -2, -2], [0, -2, -2, -2]])


def test_a_private_record_moves_an_upload_as_far_as_the_bound_says():
    recipe = TrainingRecipe(batch_size=5, local_epochs=2, gradient="clipped_mean")
    query = PrivateQuerySettings(private_clip=0.5)
    for left_out, factor in ((False, 2.0), (True, 1.0)):
        moved = audit_training.private_record_updates(
            recipe,
            TrainingRates(0.1, 3.0, 0.0, 0.0),
            query,
            num_public=10,
            num_private=4,
            left_out=left_out,
            key=jax.random.key(3),
        )
        gap = abs(moved[0] - moved[1])
        bound = record_bound(0.5, 4, factor)
        np.testing.assert_allclose(gap, bound, rtol=1e-4)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_dp_sgd_in_the_client_keeps_its_promise(relation: str):
    _, mechanism = told(
        "nbafl",
        clipping="per_example",
        relation=relation,
        epsilon=2.0,
        delta=DELTA,
        calibration="analytic",
        l2_norm_clip=1.0,
        local_epochs=2,
        batch_size=5,
    )
    recipe = TrainingRecipe(batch_size=5, local_epochs=2, gradient="per_example")
    play = audit_training.training_player(
        mechanism,
        recipe,
        TrainingRates(0.1, 1.0, 0.0, 0.0),
        audit_training.neighbours(5, 1, 2.0, left_out=relation == "add_remove"),
        1,
        1000,
    )
    scores = play(jax.random.key(4))
    bounds = lower_bounds(
        scores.inside[0], scores.outside[0], delta=DELTA, equal_noise=True
    )
    # With one batch an epoch the upload is the worst case itself: the bound is near.
    assert 0.4 * 2.0 < max(bounds.values()) < 2.0
