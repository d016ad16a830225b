"""Fréchet distances of many reconstructions, by attacker and by network."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.attacks.many_images import CHUNK, ManyImages

REAL = jax.random.uniform(jax.random.key(0), (40, 2, 2, 1), minval=-0.5, maxval=0.5)


class Pixels:
    """The pixels themselves as features, stretched."""

    def __init__(self, name: str, factor: float) -> None:
        self.name, self._factor = name, factor

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return self._factor * images.reshape(len(images), -1)


class Bright:
    """Calls an image class 1 if its first pixel is positive."""

    def classify(self, images: Any) -> np.ndarray:
        return np.asarray(images[:, 0, 0, 0] > 0).astype(int)


def many(num_images: int) -> ManyImages:
    judge: Any = Bright()
    networks = [Pixels("pixels", 1.0), Pixels("larger", 3.0)]
    return ManyImages(judge, networks, REAL, label=1, num_images=num_images)


def test_every_attacker_has_its_own_distance_in_every_network() -> None:
    """Moving all pixels by .2 of [0, 1] is a distance of 4 · .2² between the means."""

    def make(chunk: int) -> jax.Array:
        copies = jnp.tile(REAL, (-(-CHUNK // 40), 1, 1, 1))[:CHUNK]
        return jnp.stack([copies, copies + 0.4])

    found = many(1000).of_attackers(make)
    assert found["num_images"] == 1000 and found["num_real"] == 40
    near, moved = found["frechet_distances"]["pixels"]
    assert near == pytest.approx(0, abs=1e-3)
    assert moved == pytest.approx(4 * 0.2**2, abs=5e-3)
    assert found["frechet_distances"]["larger"][1] == pytest.approx(9 * moved, rel=1e-4)
    assert found["recognised"][0] < found["recognised"][1]
    reference = many(1000).of_real(REAL + 0.4)
    assert reference["frechet_distances"]["pixels"] == pytest.approx(4 * 0.2**2)


def test_as_many_images_count_as_were_asked_for() -> None:
    """The second chunk's images beyond the 600th are bright and must not count."""

    def make(chunk: int) -> jax.Array:
        shown = jnp.arange(CHUNK)[None] + chunk * CHUNK >= 600
        images = jnp.where(shown, 0.9, -0.9)[..., None, None, None]
        return jnp.broadcast_to(images, (1, CHUNK, 2, 2, 1))

    assert many(600).of_attackers(make)["recognised"] == [0.0]
    assert many(800).of_attackers(make)["recognised"] == [0.25]
