"""The coalitions of attributes that a client trains: planned for all, or drawn."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array

from . import paired


class Group(NamedTuple):
    """Coalitions whose trainings are one loop, or one vmapped training."""

    batch_size: int
    masks: tuple[int, ...]
    most_steps: int | None = None  # of any client; None: known only as it runs


Groups = tuple[Group, ...]  # the full coalition comes last


class EstimationPlan(NamedTuple):
    """The settings of PE that are fixed when the round is compiled.

    Attributes:
      num_attributes: N.
      private_attribute: the private one's index.
      groups: the coalitions that every client trains, by `coalition_groups`.
      validation_batch_size: examples in one batch of a utility.
      estimator: `exact`, `additive` or `gp`, of `shapley.ShapleySettings`.
      num_drawn: m, coalitions, random or designed, that are trained too.
      utility: `accuracy` or `loss`.
      empty_utility: U(empty): "zero" (FedSDP's public code) or "initial", the
        utility of the broadcast model.
      num_parallel: coalitions that train side by side; above 1, groups know their
        steps.
      known_trips: as `Validation` takes it; true where `num_parallel` is above 1.
    """

    num_attributes: int
    private_attribute: int
    groups: Groups
    validation_batch_size: int
    estimator: str = "exact"
    num_drawn: int = 0
    utility: str = "accuracy"
    empty_utility: str = "zero"
    num_parallel: int = 1
    known_trips: bool = False


def planned_coalitions(estimator: str, num_attributes: int) -> list[int]:
    """Bitmasks of the coalitions that every client trains, whatever is drawn."""
    full = 2**num_attributes - 1
    if estimator == "exact":
        return list(range(1, full + 1))
    return sorted({full, *(1 << a for a in range(num_attributes))})


def coalition_rows(masks: Sequence[int], num_attributes: int) -> np.ndarray:
    """(len(masks), N) bool: the coalitions of bitmasks."""
    return np.asarray(masks, int)[:, None] >> np.arange(num_attributes) & 1 == 1


def coalition_groups(
    sizes: dict[int, int], batch_size: int, *, epochs: int | None = None
) -> Groups:
    """The coalitions in groups; the full one comes last.

    The coalitions of a group have batches of one shape. With `epochs` they take a
    similar number of steps instead, more than half of the group's largest. Trained side
    by side, fewer than half of the steps are then idle, and only the smallest batches
    are padded.

    Args:
      sizes: bitmask -> the most examples that any client holds of it; a coalition that
        nobody holds is left out.
      batch_size: B; a coalition that never fills B takes its own size.
      epochs: E, where the number of steps is to be known.
    """
    full = max(sizes)
    batch = {mask: min(batch_size, size) for mask, size in sizes.items() if size > 0}
    steps = {mask: (epochs or 1) * (sizes[mask] // batch[mask]) for mask in batch}
    key = batch if epochs is None else {m: n.bit_length() for m, n in steps.items()}
    groups: dict[int, list[int]] = {}
    for mask in sorted(batch):
        groups.setdefault(key[mask], []).append(mask)
    return tuple(
        Group(
            max(batch[mask] for mask in masks),
            tuple(masks),
            None if epochs is None else max(steps[mask] for mask in masks),
        )
        for masks in sorted(groups.values(), key=lambda masks: full in masks)
    )


def drawn_pairs(
    key: Array, present: Array, num_pairs: int
) -> tuple[paired.Pairs, Array]:
    """The pairs, and (2P, N) bool: the coalitions to train, the complements last.

    A row is empty where the coalition's utility is known without a training.
    """
    pairs = paired.draw_pairs(jax.random.fold_in(key, 0), present, num_pairs)
    rows = jnp.concatenate([pairs.coalitions, pairs.complements])
    return pairs, rows & (jnp.sum(rows, axis=1, keepdims=True) > 1)
