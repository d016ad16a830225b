"""The active attack: the attacker trains its upload on its own mislabelled images.

Half of its training examples are replaced by what its generator makes of the private
class, under another class's label. The victims' models then have to tell the private
class from the attacker's images of it, and so learn more of what it looks like
(Hitaj et al. 2017, arXiv 1702.07464, sec. 5).
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.structs import Array, Examples, Params

SHARE = 0.5  # of an attacker's training examples


class Poison:
    """Slots behind the federation's examples that the attackers' images fill.

    The trainer's split is changed once, so that the attackers hold the slots; counts
    and attributes stay, and with them every compiled shape.

    Args:
      trainer: of one cell; its `cells` are changed.
      attackers: (A,) client ids.
      label: what the images are said to show.
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
        """The federation's examples, then the attackers' as they are made now."""
        images = self._make(generators, key, self._each)
        pixels = jnp.round((images + 1) * 127.5).astype(jnp.uint8)
        inputs = pixels.reshape(-1, *pixels.shape[2:])
        return Examples(
            inputs=jnp.concatenate([self._clean.inputs, inputs]),
            labels=jnp.concatenate([self._clean.labels, self._labels]),
            attributes=jnp.concatenate([self._clean.attributes, self._attributes]),
        )
