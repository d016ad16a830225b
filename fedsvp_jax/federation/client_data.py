"""The arrays of a federation that the compiled round takes, and who holds what."""

import logging
from typing import NamedTuple

import numpy as np

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.structs import Array, Examples, Split
from fedsvp_jax.data import partition, preprocessing, train_validation
from fedsvp_jax.data.attributes import Attributes
from fedsvp_jax.data.dataset import ClientStore, Dataset, Names
from fedsvp_jax.shapley.coalitions import coalition_rows, planned_coalitions

from . import loading
from .cohort_stream import CohortReader

_LOG = logging.getLogger(__name__)


class AttributeCounts(NamedTuple):
    """The attributes of a federation, in every cell, and who holds how much of them."""

    attributes: Attributes
    num_tested_attributes: int  # N; 0 where test examples' attributes are unknown
    private_classes: tuple[int, ...]  # of the private attribute; () if it is no class
    coalition_sizes: dict[int, int]  # planned bitmask -> most examples of any client
    min_num_private: int  # of the private attribute, of the clients that hold any


def count_attributes(
    config: ResolvedConfig,
    dataset: Dataset | ClientStore,
    attributes: Attributes,
    tested: np.ndarray | None,
    counts: np.ndarray,
) -> AttributeCounts:
    """The counts from the training examples by client and attribute, (M, N).

    Args:
      tested: each test example's attribute; None where it is not known.
    """
    targets = dataset.train_targets is not None
    masks = planned_coalitions(config.shapley, counts.shape[1])
    rows = coalition_rows(masks, counts.shape[1])
    num_private = counts[:, attributes.private]
    return AttributeCounts(
        attributes=attributes,
        num_tested_attributes=0 if tested is None else len(attributes.names),
        private_classes=() if targets else loading.private_classes(config, dataset),
        coalition_sizes={
            mask: int(counts[:, row].sum(1).max())
            for mask, row in zip(masks, rows, strict=True)
        },
        min_num_private=int(
            num_private[num_private > 0].min(initial=num_private.max(initial=1))
        ),
    )


class FederatedData(NamedTuple):
    """Data on the device, and who holds what in every cell.

    Of a store, `examples` and `split` are an empty cohort's: every round brings its
    own in their place.
    """

    examples: Examples
    test: Examples
    split: Split  # leading axis (cells,)
    counts: AttributeCounts
    num_train: np.ndarray  # (cells, M): training examples of each client
    most_copies: tuple[int, ...]  # by cell: clients that hold one protected record
    num_classes: int
    from_records: Names  # as `Dataset` has it; the attributes' categories too
    corrupted: np.ndarray  # (cells, M) bool
    fingerprint: str  # of the data set that all of this was made of
    reader: CohortReader | None = None  # of a store
    client_names: Names | None = None  # (M,) of the first cell, if any
    warmup: Examples | None = None  # the centre's own, of the influence filter
    validation: Examples | None = None  # the server's own, to choose the best round
    rows_per_person: int | None = None  # as `Dataset` has it
    bought: tuple[int, float] = (0, 0.0)  # bounds, and ε of each (`Schema.bought`)

    @property
    def example(self) -> Array:
        """A batch of one example, as `model.init` takes it."""
        return preprocessing.normalize(self.examples.inputs[:1])

    @property
    def min_num_examples(self) -> int:
        """Training examples of the smallest client, over all cells."""
        return int(self.num_train.min())

    @property
    def max_num_examples(self) -> int:
        """Training examples of the largest client, over all cells."""
        return int(self.num_train.max())


def division_of(config: ResolvedConfig, private: int) -> train_validation.Division:
    """The division of clients' examples; a warning where all clients are curious."""
    number = config.num_hbc_clients if config.num_attributes > 1 else 0
    if number == config.num_clients:
        _LOG.warning(
            "num_hbc_clients = %d is all clients: nobody holds private data, and every "
            "contribution ratio is 0",
            number,
        )
    curious = frozenset(partition.hbc_clients(config.num_clients, number).tolist())
    share = config.train_fraction
    return train_validation.Division(private, curious, config.seed, share, config.split)
