"""From the host's arrays to what a model sees."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_files

from fedsvp_jax.data import preprocessing


def test_pixels_reach_from_minus_one_to_one() -> None:
    """With the same bits inside and outside jit."""
    pixels = jnp.arange(256, dtype=jnp.uint8)
    scaled = jax.jit(preprocessing.normalize)(pixels)
    np.testing.assert_array_equal(scaled, preprocessing.normalize(pixels))
    assert scaled.dtype == jnp.float32
    np.testing.assert_array_equal(scaled[jnp.array([0, 255])], [-1, 1])
    np.testing.assert_allclose(scaled, np.arange(256) / 127.5 - 1, atol=1e-7)


@pytest.mark.parametrize("background", [0, 255])
def test_rgb32_centres_repeats_the_channel_and_continues_the_background(
    background: int,
) -> None:
    pixels = np.full((3, 28, 28, 1), background, np.uint8)
    pixels[:, 1:-1, 1:-1] = tiny_files.images(3, 26, 1)
    frame = preprocessing.to_rgb32(pixels)
    assert frame.shape == (3, 32, 32, 3)
    np.testing.assert_array_equal(frame[:, 2:-2, 2:-2], np.repeat(pixels, 3, axis=-1))
    frame[:, 2:-2, 2:-2] = background
    assert (frame == background).all()


@pytest.mark.hole
def test_a_records_crop_does_not_follow_the_records_beside_it() -> None:
    """In a Poisson batch one more record would move the others to other places."""
    images = np.random.default_rng(0).integers(0, 256, (8, 12, 12, 3)).astype(np.uint8)
    crop = partial(preprocessing.random_crop_and_flip, key=jax.random.key(3))
    numbers = np.arange(8, dtype=np.int32)
    whole = crop(images, numbers)
    kept = np.asarray([1, 2, 5, 7])
    np.testing.assert_array_equal(crop(images[kept], numbers[kept]), whole[kept])
    same = crop(np.repeat(images[:1], 200, 0), np.arange(200, dtype=np.int32))
    assert len({image.tobytes() for image in np.asarray(same)}) > 80  # of 162
