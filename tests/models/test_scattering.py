"""Scattering coefficients beside kymatio's and beside their definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.data.datasets import embedded
from fedsvp_jax.models import scattering

coefficients = jax.jit(scattering.scattering)
features = jax.jit(scattering.scattering_features)


def wavy(side: int) -> np.ndarray:
    at = np.arange(float(side))
    return 0.5 + 0.3 * np.sin(0.9 * at[:, None] + 0.4 * at) * np.cos(0.25 * at**1.2)


# kymatio 0.3.0, numpy, float64: Scattering2D(J=2, shape=(16, 16), L=8)(wavy(16)).
KYMATIO = {
    (0, 1, 2): 0.4622404124946851,
    (1, 0, 0): 0.016226104018899276,
    (3, 2, 1): 0.026919981362729134,
    (8, 3, 3): 0.011882145128252603,
    (9, 1, 1): 0.02247632150060662,
    (14, 0, 3): 0.031632035935636516,
    (17, 1, 2): 0.001146846414666602,
    (30, 2, 2): 0.0007086424592104728,
    (55, 0, 1): 0.0016962824705986056,
    (80, 3, 0): 0.001296353343588493,
}


def test_the_coefficients_are_kymatios() -> None:
    found = coefficients(jnp.asarray(wavy(16)[None], jnp.float32))[0]
    assert found.shape == (81, 4, 4)
    for place, expected in KYMATIO.items():
        np.testing.assert_allclose(found[place], expected, rtol=2e-4, err_msg=place)


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_a_constant_image_has_a_mean_and_nothing_else(shift: float) -> None:
    found = coefficients(jnp.full((1, 8, 8), shift, jnp.float32))[0]
    np.testing.assert_allclose(found[0], shift, rtol=1e-3)
    np.testing.assert_allclose(found[1:], 0, atol=1e-6)


def test_features_are_normalised_by_group_and_look_at_their_image_alone() -> None:
    images = np.random.default_rng(1).integers(0, 256, (3, 8, 8, 3), np.uint8)
    found = features(images)
    assert found.shape == (3, 3 * 81 * 2 * 2)
    groups = found.reshape(3, scattering.GROUPS, -1)
    np.testing.assert_allclose(groups.mean(-1), 0, atol=1e-4)
    assert 0.99 < float(groups.std(-1).max()) < 1.001
    assert float(groups.std(-1).min()) > 0.2  # ε = 1e-5 counts where little varies
    others = images.copy()
    others[1:] = 255 - others[1:]
    np.testing.assert_array_equal(features(others)[0], found[0])


def test_features_by_channel_are_the_coefficients_on_a_public_scale() -> None:
    constants = scattering.channel_constants(embedded.photographs(), 16)
    mean, scale = constants["mean"], constants["scale"]
    assert mean.shape == scale.shape == (81,) and np.all(scale >= 1e-5**0.5)
    images = np.stack([wavy(16), 0.5 * wavy(16)], axis=-1)[None].astype(np.float32)
    found = scattering.channel_features(constants, jnp.asarray(images))
    found = found.reshape(2, 81, 4, 4)
    for colour, image in enumerate((wavy(16), 0.5 * wavy(16))):
        raw = coefficients(jnp.asarray(image[None], jnp.float32))[0]
        expected = (np.asarray(raw) - mean[:, None, None]) / scale[:, None, None]
        np.testing.assert_allclose(found[colour], expected, rtol=1e-4, atol=1e-4)
    bytes_of = jnp.asarray(np.round(255 * images), jnp.uint8)
    coarse = scattering.channel_features(constants, bytes_of).reshape(2, 81, 4, 4)
    np.testing.assert_allclose(coarse, found, atol=0.3)


def test_constants_are_the_statistics_of_photographs_at_many_sizes() -> None:
    """A photograph that has no detail leaves a mean and no variance."""
    flat = np.full((40, 50, 3), 51, np.uint8)
    flat[..., 1] = 153
    found = scattering.channel_constants([flat], 8)
    np.testing.assert_allclose(found["mean"][0], (0.2 + 0.6 + 0.2) / 3, rtol=1e-3)
    np.testing.assert_allclose(found["mean"][1:], 0, atol=1e-6)
    np.testing.assert_allclose(found["scale"][1:], 1e-5**0.5, rtol=1e-3)
    assert found["scale"][0] == pytest.approx(0.4 * 2**0.5 / 3, rel=1e-3)
