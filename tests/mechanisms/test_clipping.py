"""Sensitivities: their bounds, their clips, and what they refuse."""

import math
import pathlib
import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from published import make, published, upload

from fedsvp_jax.core import settings
from fedsvp_jax.core.clips import CLIPS
from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.mechanisms import base, clipping
from fedsvp_jax.mechanisms.noise import clip_by_l2_norm


@pytest.mark.parametrize("name", ["nbafl", "fedsva", "dpa", "reestimation"])
def test_a_scale_gives_the_noise_of_a_client_with_so_many_times_the_examples(name: str):
    def told(size: int, scale: float) -> NoiseInfo:
        made = make(name, min_num_examples=size, noise_examples_scale=scale)
        return upload(made, jnp.ones((3,)), num_examples=size)[2]

    few, many = told(325, 80.0), told(26_000, 1.0)
    np.testing.assert_allclose(few.noise_std, many.noise_std, rtol=1e-6)
    np.testing.assert_allclose(few.sensitivity, 2 * 20 / 26_000, rtol=1e-6)
    claim = make(name, noise_examples_scale=80.0).basis
    assert not claim.proved and "80 times the examples that these" in claim.assumptions


@pytest.mark.parametrize(
    ("choice", "bound", "removed", "swaps", "relations"),
    [
        ("paper", 2 * 3 / 100, None, (None, None), ("replace one record",)),
        ("weight_clip", 2 * 3, None, (1.0, 1.0), ("replace all records",)),
        (
            *("update_clip", 2 * 3, 3, (1.0, 2.0)),
            ("replace all records", "add or remove a client"),
        ),
        (
            *("per_example", 2 * 2 * 3 / 6, 2 * 3 / 6, (None, None)),
            ("replace one record", "leave one record of a client out"),
        ),
        (
            *("attribute_records", 2 * 5 / 100, 5 / 100, (None, None)),
            ("replace one record of the private", "leave one record of the private"),
        ),
    ],
)
def test_the_rules_are_those_of_the_modules_table_under_either_relation(
    choice: str, bound: float, removed: float | None, swaps: Any, relations: Any
):
    told = {"l2_norm_clip": 3.0, "batch_size": 6, "local_epochs": 4}
    told |= {"private_clip": 5.0, "clipping": choice}
    clip, start = CLIPS[choice], {"w": jnp.asarray([1.0, 2.0])}
    assert clip.either_relation == (removed is not None)
    for number, relation in enumerate(("replace_one", "add_remove")):
        made = clipping.make_clipping(published(**told, relation=relation))
        moves = bound if number == 0 or removed is None else removed
        np.testing.assert_allclose(made.bound(jnp.int32(100)), moves, rtol=1e-6)
        assert made.rule == clip and made.client_swap == swaps[number]
        assert made.relation.startswith(relations[-1 if number else 0])
        assert base.claim_of(made).proved != clip.bound_unproved and made.assumptions
        moved, was = made.clip({"w": jnp.asarray([3e5, -4e5])}, start)
        ends = moved["w"] + (start["w"] if clip.of_weights else 0)
        length = 3.0 if clip.in_ball else 5e5
        np.testing.assert_allclose(jnp.linalg.norm(ends), length, rtol=3e-6)
        assert bool(was) == clip.in_ball
        short = jnp.asarray([1e-9, -0.0])  # which is told to the bit
        kept, was = made.clip({"w": short}, start)
        assert was == 0 and kept["w"].tobytes() == short.tobytes()


def test_the_least_clip_still_clips_what_float32_can_square() -> None:
    """Squares below 1e-38 vanish: a clip of 1e-20 let five times its length pass."""
    size = 10**4
    for bound in (1e-20, settings.LEAST_CLIP):
        long = {"w": jnp.full((size,), 5 * bound / math.sqrt(size), jnp.float32)}
        kept, was = clip_by_l2_norm(long, bound)
        length = float(np.linalg.norm(np.asarray(kept["w"], np.float64)))
        assert (length <= bound * (1 + 1e-5)) == bool(was) == (bound > 1e-19)


@pytest.mark.parametrize("kind", ["update_clip", "weight_clip"])
def test_an_update_that_overflowed_is_clipped_to_some_vector_of_the_ball(kind: str):
    made = clipping.make_clipping(published(clipping=kind, l2_norm_clip=0.5))
    before = {"w": jnp.asarray([0.3, 0.4])}
    for spoilt in (np.nan, np.inf, -np.inf, 3e38):  # the last has no finite square
        clipped, was = made.clip({"w": jnp.asarray([spoilt, 0.1])}, before)
        centre = before["w"] if kind == "weight_clip" else 0.0
        assert was == 1 and not jnp.any(clipped["w"] + centre)


def test_no_module_compares_the_name_of_a_clip_but_the_one_that_makes_it() -> None:
    root = pathlib.Path(clipping.__file__).parents[2]
    compared = re.compile(r"clipping (==|!=|in|not in) [(\"]")
    files = [*root.glob("fedsvp_jax/**/*.py"), *root.glob("experiments/**/*.py")]
    found = [file.name for file in files if compared.search(file.read_text())]
    assert files and not found
