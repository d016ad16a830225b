"""Which attribute each training example belongs to, and which one is private.

The papers divide a client's data into N disjoint subsets by attribute; one of the
attributes, p, is private (FedSVA, arXiv 2503.12958v2, sec. 3).
"""

from typing import NamedTuple

import numpy as np

from fedsvp_jax.data.dataset import Column
from fedsvp_jax.prng import Draw, generator


class Attributes(NamedTuple):
    """The attribute of every training example."""

    ids: np.ndarray  # (n,) int32 in [0, N)
    names: tuple[str, ...]  # N names
    private: int  # the private attribute's index in `names`


def class_private(
    labels: np.ndarray,
    private_class: int,
    *,
    num_classes: int,
    num_attributes: int = 2,
) -> Attributes:
    """Attributes that are classes: the private class, or its group, has index 0.

    N = 2: the private class against all others, as published. N > 2: the classes,
    counted upwards from the private one and around, are cut into N groups whose
    sizes differ by one at most, the larger ones first. The papers vary N without
    saying which classes form a group: a reconstruction.

    Args:
      labels: (n,) int32 in [0, num_classes).
      private_class: the class (N = 2), or a class of the group, that is private.
      num_classes: number of classes.
      num_attributes: N, from 2 to num_classes.

    Raises:
      ValueError: private_class or num_attributes is out of its range.
    """
    if not 0 <= private_class < num_classes:
        raise ValueError(
            f"private_class must be in [0, {num_classes}), got {private_class}"
        )
    if not 2 <= num_attributes <= num_classes:
        raise ValueError(
            f"num_attributes must be in [2, {num_classes}], got {num_attributes}"
        )
    classes = (private_class + np.arange(num_classes)) % num_classes
    groups = (
        [classes[:1], classes[1:]]
        if num_attributes == 2
        else np.array_split(classes, num_attributes)
    )
    of_class = np.empty(num_classes, np.int32)
    for index, group in enumerate(groups):
        of_class[group] = index
    names = tuple(
        f"class {group[0]}"
        if len(group) == 1
        else "classes " + ",".join(str(c) for c in sorted(group))
        for group in groups
    )
    return Attributes(of_class[labels], names, private=0)


def from_column(column: Column, private: str) -> Attributes:
    """Attributes that are a column's categories, such as Adult's sex.

    Args:
      column: the training examples' codes and their categories.
      private: the category that is private.

    Raises:
      ValueError: the column has no such category, or fewer than two.
    """
    if private not in column.categories or len(column.categories) < 2:
        raise ValueError(
            f"private must be one of at least two categories "
            f"{', '.join(column.categories)}, got {private!r}"
        )
    return Attributes(column.codes, column.categories, column.categories.index(private))


def from_writer_groups(
    writers: np.ndarray, num_groups: int, *, seed: int
) -> Attributes:
    """Attributes that are groups of writers, drawn by seed; group 0 is private.

    Group sizes, in writers, differ by one at most. Under the partition `by_writer` a
    client's examples are all of one group.

    Args:
      writers: (n,) int32 writer ids.
      num_groups: N, from 2 to the number of writers.
      seed: >= 0.

    Raises:
      ValueError: num_groups is out of its range.
    """
    known, positions = np.unique(writers, return_inverse=True)
    if not 2 <= num_groups <= len(known):
        raise ValueError(f"num_groups must be in [2, {len(known)}], got {num_groups}")
    rng = generator(seed, Draw.WRITER_GROUPS)
    groups = rng.permutation(np.arange(len(known)) % num_groups).astype(np.int32)
    names = tuple(f"writer group {index}" for index in range(num_groups))
    return Attributes(groups[positions], names, private=0)
