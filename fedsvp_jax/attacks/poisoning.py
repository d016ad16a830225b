"""The active attack: the attacker trains on generated images with a wrong label.

Half of the attacker's training examples are replaced by its generator's images of the
private class, labelled as another class. The victims' models then have to separate the
private class from the attacker's images of it, and so learn more about what it looks
like (Hitaj et al. 2017, arXiv 1702.07464, sec. 5).
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array, Examples, Params
from fedsvp_jax.run.trainer import Trainer

SHARE = 0.5  # of an attacker's training examples


class Poison:
    """Slots after the federation's examples, to be filled with the attackers' images.

    The trainer's split is changed once, so that the attackers hold the slots. Counts
    and attributes do not change, and neither does any compiled shape.

    Args:
      trainer: of one cell; its `cells` are changed.
      attackers: (A,) client ids.
      label: the wrong label of the images.
      make: generator parameters (A, ...), key, count -> images (A, count, ...) of the
        private class in [-1, 1].
    """

    def __init__(
        self,
        trainer: Trainer,
        attackers: np.ndarray,
        label: int,
        make: Callable[[Params, Array, int], Array],
    ) -> None:
        self._clean = trainer.program.data.examples
        split = trainer.cells.split
        rows, counts = (np.array(leaf[0]) for leaf in (split.train, split.num_train))
        self._each = max(1, int(SHARE * counts[attackers].min()))
        first = len(self._clean.labels)
        replaced = rows[attackers, : self._each].reshape(-1)
        slots = first + np.arange(len(replaced), dtype=rows.dtype)
        rows[attackers, : self._each] = slots.reshape(len(attackers), -1)
        train = jax.device_put(rows[None], split.train.sharding)
        trainer.cells = dataclasses.replace(
            trainer.cells, split=dataclasses.replace(split, train=train)
        )
        self._attributes = self._clean.attributes[replaced]
        self._labels = jnp.full(len(replaced), label, jnp.int32)
        self._make = make

    def examples(self, generators: Params, key: Array) -> Examples:
        """The federation's examples, then new images of the attackers' generators."""
        images = self._make(generators, key, self._each)
        pixels = jnp.round((images + 1) * 127.5).astype(jnp.uint8)
        inputs = pixels.reshape(-1, *pixels.shape[2:])
        return Examples(
            inputs=jnp.concatenate([self._clean.inputs, inputs]),
            labels=jnp.concatenate([self._clean.labels, self._labels]),
            attributes=jnp.concatenate([self._clean.attributes, self._attributes]),
        )
