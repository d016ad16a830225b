"""From settings and a data set to the arrays that the compiled round takes."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import extras, prng
from fedsvp_jax.algorithm.coalitions import coalition_rows, planned_coalitions
from fedsvp_jax.config import FederationSettings
from fedsvp_jax.data import partition, preprocessing, train_validation
from fedsvp_jax.data.attributes import Attributes, AttributeSettings
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.federation import loading
from fedsvp_jax.structs import Array, Examples, Split

_LOG = logging.getLogger(__name__)


class Cohort(NamedTuple):
    """One round's clients and their examples, where these are read round by round."""

    clients: Array  # (K,) int32 ascending, then -1 where nobody takes part
    split: Split  # leaves (K, ...), indices into `examples`
    examples: Examples  # (num_examples, ...), zeros at the end


class CohortStream(Protocol):
    """Who reads them: `store.stream`."""

    def take(self, round_num: int, spent: Array) -> Cohort:
        """The cohort of a round, after which clients had spent (M,) int32."""


class CohortReader(Protocol):
    """The clients of a store."""

    def stream(self, **how: Any) -> CohortStream:
        """Their cohorts in a run: its root, num_rounds, cohorts and allowance."""


class Game(NamedTuple):
    """The attributes of a federation, in every cell, and who holds how much of them."""

    attributes: Attributes
    num_tested_attributes: int  # N; 0 where test examples' attributes are unknown
    private_classes: tuple[int, ...]  # of the private attribute; () if it is no class
    coalition_sizes: dict[int, int]  # planned bitmask -> most examples of any client
    min_num_private: int  # of the private attribute, of the clients that hold any


def game_of(
    config: FederationSettings,
    dataset: Dataset | ClientStore,
    attributes: Attributes,
    tested: np.ndarray | None,
    counts: np.ndarray,
) -> Game:
    """The game on the training examples by client and attribute, (M, N).

    Args:
      tested: each test example's attribute; None where it is not known.
    """
    targets = isinstance(dataset, Dataset) and dataset.train_targets is not None
    masks = planned_coalitions(config.shapley, counts.shape[1])
    rows = coalition_rows(masks, counts.shape[1])
    num_private = counts[:, attributes.private]
    return Game(
        attributes=attributes,
        num_tested_attributes=0 if tested is None else len(attributes.names),
        private_classes=()
        if targets
        else loading.private_classes(config, dataset.num_classes),
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
    game: Game
    num_train: np.ndarray  # (cells, M): training examples of each client
    most_copies: tuple[int, ...]  # by cell: clients that hold one protected record
    num_classes: int
    from_records: tuple[str, ...]  # as `Dataset` has it; the attributes' categories too
    corrupted: np.ndarray  # (cells, M) bool
    fingerprint: str  # of the data set that all of this was made of
    reader: CohortReader | None = None  # of a store
    client_names: tuple[str, ...] | None = None  # (M,) of the first cell, if any
    warmup: Examples | None = None  # the centre's own, of the influence filter
    validation: Examples | None = None  # the server's own, to choose the best round
    rows_per_person: int | None = None  # as `Dataset` has it

    @property
    def example(self) -> Array:
        """A batch of one example, as `model.init` takes it."""
        return preprocessing.normalize(self.examples.inputs[:1])

    @property
    def min_num_examples(self) -> int:
        """Of the smallest client, in any cell."""
        return int(self.num_train.min())

    @property
    def max_num_examples(self) -> int:
        """Of the largest client, in any cell."""
        return int(self.num_train.max())


def division_of(config: FederationSettings, private: int) -> train_validation.Division:
    """How clients' examples are divided; a warning where all clients are curious."""
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


def federate(
    configs: Sequence[FederationSettings], dataset: Dataset | ClientStore
) -> FederatedData:
    """The federation of every cell; cells differ in what does not change shapes.

    Splits are made once a seed and padded to common shapes; corrupted clients' rows
    point to copies at the end of the examples. Of a store, one cell's.
    """
    if isinstance(dataset, ClientStore):
        federated: FederatedData = extras.around("store").federate(*configs, dataset)
        return federated
    first, fingerprint = configs[0], dataset.fingerprint
    loading.check_persons(first, dataset)
    withheld = loading.withhold_validation(first, dataset)
    dataset, chooses = withheld
    warmup = None
    if first.influence_filter != "none":
        if len(configs) > 1:
            raise ValueError(
                "influence_filter must be none in a sweep: each run withholds other "
                f"examples for the centre; got {first.influence_filter}"
            )
        dataset, warmup = loading.withhold(dataset, first.warmup_examples, first.seed)
    attributes = loading.example_attributes(first, dataset)
    examples = preprocessing.device_examples(
        dataset.train_inputs,
        dataset.train_labels,
        attributes.ids,
        dataset.train_targets,
        dataset.train_persons if dataset.rows_per_person is not None else None,
    )
    by_seed: dict[int, Split] = {}
    corrupted: dict[int, np.ndarray] = {}
    changed = [examples]
    copies: dict[int, int] = {}
    client_names: tuple[str, ...] | None = None
    protected = np.ones(len(attributes.ids), bool)  # what the relation is about
    if first.clip.asks:
        protected = attributes.ids == attributes.private
    num_rows = len(dataset.train_labels)
    for config in configs:
        if config.seed in by_seed:
            continue
        parts = loading.client_parts(config, dataset)
        if config is first:
            client_names = loading.client_names(config, dataset, parts)
        division = division_of(config, attributes.private)
        split = division.split(parts, attributes.ids, dataset.train_persons)
        copies[config.seed] = train_validation.most_copies(split, protected)
        corrupted[config.seed] = np.zeros(config.num_clients, bool)
        if config.corrupted_share > 0:
            corruption = extras.around("attacks.corruption").corrupt_clients(
                examples,
                split,
                first_copy=num_rows,
                settings=config,
                num_classes=dataset.num_classes,
                root=prng.root_key(config.seed),
            )
            split, corrupted[config.seed] = corruption.split, corruption.corrupted
            changed.append(corruption.copies)
            num_rows += corruption.copies.labels.shape[0]
        by_seed[config.seed] = split
    split = train_validation.stack_splits([by_seed[c.seed] for c in configs])
    if len(changed) > 1:
        examples = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *changed)
    counts = _attribute_counts(
        split, np.asarray(examples.attributes), len(attributes.names)
    )
    tested = loading.test_attributes(first, dataset)
    return FederatedData(
        examples=examples,
        test=preprocessing.device_examples(
            dataset.test_inputs, dataset.test_labels, tested, dataset.test_targets
        ),
        split=split,
        game=game_of(first, dataset, attributes, tested, counts),
        num_train=np.asarray(split.num_train),
        most_copies=tuple(copies[config.seed] for config in configs),
        from_records=_from_records(first, dataset),
        num_classes=dataset.num_classes,
        corrupted=np.stack([corrupted[config.seed] for config in configs]),
        fingerprint=fingerprint,
        warmup=warmup,
        validation=chooses,
        client_names=client_names,
        rows_per_person=dataset.rows_per_person,
    )


def _attribute_counts(
    split: Split, attributes: np.ndarray, num_attributes: int
) -> np.ndarray:
    """(clients of all cells, N): training examples by attribute."""
    rows = np.asarray(split.train).reshape(-1, split.train.shape[-1])
    counts = np.asarray(split.num_train).reshape(-1)
    valid = np.arange(rows.shape[1]) < counts[:, None]
    of_row = attributes[rows]
    by_attribute = [((of_row == a) & valid).sum(1) for a in range(num_attributes)]
    return np.stack(by_attribute, axis=1)


def _from_records(config: AttributeSettings, dataset: Dataset) -> tuple[str, ...]:
    kind, _, name = config.attributes.partition(":")
    public = kind != "column" or dataset.columns[name].public
    attributes = () if public else (f"the categories of {name}",)
    return tuple(dict.fromkeys((*dataset.from_records, *attributes)))
