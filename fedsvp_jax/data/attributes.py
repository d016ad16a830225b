"""The attribute of each training example, and which attribute is private.

The papers divide a client's data into N disjoint subsets by attribute; one of the
attributes, p, is private (FedSVA, arXiv 2503.12958v2, sec. 3).
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from fedsvp_jax.core.settings import MAX_ATTRIBUTES, NEEDS_ESTIMATION, Settings, setting


@dataclasses.dataclass(frozen=True)
class AttributeSettings(Settings):
    """Attributes: what may be private about an example."""

    num_attributes: int | None = setting(
        None,
        f"N: attributes of the Shapley game, at most {MAX_ATTRIBUTES}. Default: the "
        "categories of the column (attributes=column:NAME), else 2.",
        at_least=1,
    )
    attributes: str = setting(
        "class",
        "What an attribute is: class (groups of classes) or column:NAME (a column of "
        "the data set, for example adult's sex or race).",
    )
    private_attribute: int | None = setting(
        None,
        "The private class (attributes=class) or category of the column. "
        "Default: 5 for image data sets, else 0.",
        at_least=0,
    )
    private_category: str | None = setting(
        None,
        "The private class or category by its name (Female), in place of its number "
        "in --private_attribute.",
    )
    empty_utility: str = setting(
        "zero",
        "Utility of the empty coalition: zero (the authors' public code) or initial "
        "(the accuracy of the broadcast model).",
        choices=("zero", "initial"),
        needs=NEEDS_ESTIMATION,
    )

    @property
    def column(self) -> str | None:
        """The column that `attributes` names; None where classes are meant."""
        kind, _, name = self.attributes.partition(":")
        return name if kind == "column" else None


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
    class_names: tuple[str, ...] | None = None,
) -> Attributes:
    """Attributes that are groups of classes; the private group has index 0.

    With N = 2 the private class is one group and all other classes are the second, as
    published. With N > 2 the classes, counted upwards from the private one and from the
    last class on to class 0, are cut into N groups whose sizes differ by at most one,
    the larger groups first. The papers vary N without saying which classes form a
    group, so this rule is a reconstruction.

    Args:
      private_class: the private class (N = 2), or the first class of the private group.
      num_attributes: N, from 2 to num_classes.
      class_names: the names of the classes; their numbers by default.

    Raises:
      ValueError: private_class or num_attributes is out of its range.
    """
    if not 0 <= private_class < num_classes:
        raise ValueError(
            f"private_attribute must be one of the {num_classes} classes, 0 to "
            f"{num_classes - 1}; got {private_class}"
        )
    if not 2 <= num_attributes <= num_classes:
        raise ValueError(
            f"num_attributes must be between 2 and {num_classes}, the number of "
            f"classes; got {num_attributes}"
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
    called = class_names or tuple(map(str, range(num_classes)))
    names = tuple(
        f"class {called[group[0]]}"
        if len(group) == 1
        else "classes " + ",".join(called[c] for c in sorted(group))
        for group in groups
    )
    return Attributes(of_class[labels], names, private=0)
