"""Many reconstructions of the private class beside all real images of it.

The scores after every round come from a few hundred images. A Gaussian fit of d
features wants more images than d. After the last round many images are compared, in the
features of several networks.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.attacks import frechet
from fedsvp_jax.attacks.classifier import Classifier, FeatureExtractor
from fedsvp_jax.attacks.scores import unit_pixels
from fedsvp_jax.structs import Array

CHUNK = 500  # images of every attacker that are held at once
Fit = tuple[np.ndarray, np.ndarray]


class ManyImages:
    """Fréchet distances of many images to all real ones of a class.

    Args:
      judge: decides which class an image shows.
      extractors: each computes features between which distances are taken.
      real: (n, height, width, channels) in [-1, 1], n >= 3.
      label: the class that the real images show.
      num_images: images of each attacker.
    """

    def __init__(
        self,
        judge: Classifier,
        extractors: Sequence[FeatureExtractor],
        real: Array,
        *,
        label: int,
        num_images: int,
    ) -> None:
        self._judge, self._extractors, self._label = judge, extractors, label
        self.num_images, self.num_real = num_images, len(real)
        self._real: dict[str, Fit] = {
            one.name: frechet.gaussian_fit(one(unit_pixels(real))) for one in extractors
        }

    def of_attackers(self, make: Callable[[int], Array]) -> dict[str, Any]:
        """The scores of every attacker's images.

        Args:
          make: number of a chunk -> (A, CHUNK, height, width, channels) in [-1, 1].

        Returns:
          `num_images`, `num_real`, `recognised` (A shares) and `frechet_distances`
          (extractor's name -> A numbers).
        """
        recognised: list[np.ndarray] = []
        found: dict[str, list[np.ndarray]] = {one.name: [] for one in self._extractors}
        for number in range(-(-self.num_images // CHUNK)):
            images = np.asarray(make(number))
            each, rows = len(images), images.reshape(-1, *images.shape[2:])
            shown = self._judge.classify(jnp.asarray(rows)) == self._label
            recognised.append(shown.reshape(each, -1))
            for one in self._extractors:
                features = one(unit_pixels(rows))
                found[one.name].append(features.reshape(each, CHUNK, -1))
        kept = slice(self.num_images)
        shares = np.concatenate(recognised, axis=1)[:, kept].mean(axis=1)
        return {
            "num_images": self.num_images,
            "num_real": self.num_real,
            "recognised": shares,
            "frechet_distances": {
                name: [
                    self._distance(name, features[kept])
                    for features in np.concatenate(parts, axis=1)
                ]
                for name, parts in found.items()
            },
        }

    def of_real(self, images: Array) -> dict[str, Any]:
        """The scores of real images (m, height, width, channels) in [-1, 1]."""
        return {
            "num_images": len(images),
            "recognised": np.mean(self._judge.classify(images) == self._label),
            "frechet_distances": {
                one.name: self._distance(one.name, one(unit_pixels(images)))
                for one in self._extractors
            },
        }

    def _distance(self, name: str, features: np.ndarray) -> float:
        fit = frechet.gaussian_fit(features)
        return frechet.frechet_distance(*self._real[name], *fit)
