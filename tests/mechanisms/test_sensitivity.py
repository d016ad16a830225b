"""Sensitivities: their bounds, their clips, and what they refuse."""

import dataclasses
import math
import pathlib
import re

import jax.numpy as jnp
import numpy as np
import pytest
from published import make, published, upload

from fedsvp_jax import settings
from fedsvp_jax.clips import CLIPS
from fedsvp_jax.mechanisms import base, sensitivity
from fedsvp_jax.mechanisms.noise import clip_by_l2_norm


def test_clipping_weights_keeps_the_bits_of_an_update_that_needs_no_clip():
    params = {"w": jnp.asarray([0.1, 0.2])}
    update = {"w": jnp.asarray([1e-9, -0.0])}
    moved, was = sensitivity.clip_weights(update, params, 5.0)
    assert was == 0
    assert np.asarray(moved["w"]).tobytes() == np.asarray(update["w"]).tobytes()


@pytest.mark.parametrize("name", ["nbafl", "fedsva", "dpa", "reestimation"])
def test_a_scale_gives_the_noise_of_a_client_with_so_many_times_the_examples(name: str):
    few, many = (
        upload(
            make(name, min_num_examples=size, noise_examples_scale=scale),
            jnp.ones((3,)),
            num_examples=size,
        )[2]
        for size, scale in ((325, 80.0), (26_000, 1.0))
    )
    np.testing.assert_allclose(few.noise_std, many.noise_std, rtol=1e-6)
    np.testing.assert_allclose(few.sensitivity, 2 * 20 / 26_000, rtol=1e-6)


def test_a_scaled_noise_is_nominal():
    rule = sensitivity.make_sensitivity(published(noise_examples_scale=5.0))
    assert not base.claim_of(rule).proved
    assert "5 times the examples that these have" in rule.assumptions


def test_the_rules_bounds_and_swaps_are_those_of_the_modules_table():
    def rule(choice: str, **changes: str) -> sensitivity.Sensitivity:
        config = published(
            l2_norm_clip=3.0,
            batch_size=6,
            local_epochs=4,
            private_clip=5.0,
            sensitivity=choice,
            **changes,
        )
        made = sensitivity.make_sensitivity(config)
        assert made.rule.name == choice
        return made

    size = jnp.int32(100)
    alone = rule("update_clip", relation="add_remove")
    record, private = (
        rule(choice, relation="add_remove")
        for choice in ("per_example", "attribute_records")
    )
    bounds = {
        rule("paper"): (2 * 3 / 100, None, "replace one record"),
        rule("weight_clip"): (2 * 3, 1.0, "replace all records"),
        rule("update_clip"): (2 * 3, 1.0, "replace all records"),
        alone: (3.0, 2.0, "add or remove a client"),
        rule("per_example"): (2 * 2 * 3 / 6, None, "replace one record"),
        record: (2 * 3 / 6, None, "leave one record of a client out"),
        rule("attribute_records"): (
            2 * 5 / 100,
            None,
            "replace one record of the private attribute",
        ),
        private: (5 / 100, None, "leave one record of the private attribute"),
    }
    big = {"w": jnp.asarray([30.0, 40.0])}
    for made, (bound, swap, relation) in bounds.items():
        np.testing.assert_allclose(made.bound(size), bound, rtol=1e-6)
        assert made.client_swap == swap and made.relation.startswith(relation)
        assert made.assumptions
        clipped, was = made.clip(big, {"w": jnp.zeros((2,))})
        clips = made.rule.name.endswith("_clip")
        length = jnp.linalg.norm(clipped["w"])
        np.testing.assert_allclose(length, 3.0 if clips else 50.0, rtol=3e-6)
        assert bool(was) == clips


def test_the_least_clip_still_clips_what_float32_can_square() -> None:
    """Squares below 1e-38 vanish: a clip of 1e-20 let five times its length pass."""
    size = 10**4
    for bound in (1e-20, settings.LEAST_CLIP):
        long = {"w": jnp.full((size,), 5 * bound / math.sqrt(size), jnp.float32)}
        kept, was = clip_by_l2_norm(long, bound)
        length = float(np.linalg.norm(np.asarray(kept["w"], np.float64)))
        assert (length <= bound * (1 + 1e-5)) == bool(was) == (bound > 1e-19)


def test_a_cohort_that_shares_its_noise_divides_the_bound_of_the_smallest_client():
    config = published(
        "gaussian",
        sensitivity="paper",
        l2_norm_clip=3.0,
        cohort_size=10,
        colluders=6,
        min_num_examples=12.0,
    )
    alone = sensitivity.make_sensitivity(config)
    told = dataclasses.replace(config, noise_trust="secure_aggregation")
    shared = sensitivity.make_sensitivity(told)
    assert sensitivity.root_sharers(config) == 1 and sensitivity.root_sharers(told) == 2
    for size in (12, 100):
        np.testing.assert_allclose(alone.bound(jnp.int32(size)), 6 / size, rtol=1e-6)
        np.testing.assert_allclose(shared.bound(jnp.int32(size)), 0.25, rtol=1e-6)
    assert shared.relation == alone.relation and shared.rule == alone.rule
    for colluders in (10, 11):
        nobody = dataclasses.replace(told, colluders=colluders)
        with pytest.raises(ValueError, match="colluders must be fewer than"):
            sensitivity.root_sharers(nobody)
    last = dataclasses.replace(told, colluders=9)
    assert sensitivity.root_sharers(last) == 1


@pytest.mark.parametrize("kind", ["update_clip", "weight_clip"])
def test_an_update_that_overflowed_is_clipped_to_some_vector_of_the_ball(kind: str):
    made = sensitivity.make_sensitivity(published(sensitivity=kind, l2_norm_clip=0.5))
    before = {"w": jnp.asarray([0.3, 0.4])}
    for spoilt in (np.nan, np.inf):
        clipped, was = made.clip({"w": jnp.asarray([spoilt, 0.1])}, before)
        centre = before["w"] if kind == "weight_clip" else 0.0
        assert was == 1 and jnp.linalg.norm(clipped["w"] + centre) <= 0.5


def test_no_module_compares_the_name_of_a_clip_but_the_one_that_makes_it() -> None:
    root = pathlib.Path(sensitivity.__file__).parents[2]
    compared = re.compile(r"sensitivity (==|!=|in|not in) [(\"]")
    files = [*root.glob("fedsvp_jax/**/*.py"), *root.glob("experiments/**/*.py")]
    found = [file.name for file in files if compared.search(file.read_text())]
    assert files and not found


def test_what_is_known_of_a_clip_by_its_name_is_so_once_it_is_made() -> None:
    for name, clip in CLIPS.items():
        made = sensitivity.make_sensitivity(published(sensitivity=name))
        assert made.rule == clip and clip.name == name
        assert base.claim_of(made).proved != clip.granted
        other = published(sensitivity=name, relation="add_remove")
        removed = sensitivity.make_sensitivity(other)
        one = jnp.int32(1)
        assert (removed.bound(one) < made.bound(one)) == clip.either_relation
        far = {"w": jnp.asarray([3e5, -4e5])}
        start = {"w": jnp.asarray([1.0, 2.0])}
        moved, _ = made.clip(far, start)
        weights = moved["w"] + (start["w"] if clip.of_weights else 0)
        assert (float(jnp.linalg.norm(weights)) <= 20 * (1 + 1e-5)) == clip.in_ball
