"""The arrays of a round from settings and data, in memory or in a store."""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core import prng
from fedsvp_jax.core.settings import FEATURE_MODELS
from fedsvp_jax.core.structs import Array, Examples, Split
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import partition, preprocessing, train_validation
from fedsvp_jax.data.attributes import Attributes
from fedsvp_jax.data.dataset import ClientStore, Dataset, Names
from fedsvp_jax.data.store.clients import StoredClients
from fedsvp_jax.data.store.folder import open_store
from fedsvp_jax.round import cohort
from fedsvp_jax.shapley.coalitions import coalition_rows, planned_coalitions

from . import loading
from .cohort_stream import CohortReader
from .corruption import corrupt_clients

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
    validation: Examples | None  # the server's own, to choose the best round
    reader: CohortReader | None = None  # of a store
    client_names: Names | None = None  # (M,) of the first cell, if any
    warmup: Examples | None = None  # the centre's own, of the influence filter
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
            f"num_hbc_clients = {number} is all clients: nobody holds private data, "
            "and every contribution ratio is 0"
        )
    curious = frozenset(partition.hbc_clients(config.num_clients, number).tolist())
    share = config.train_fraction
    return train_validation.Division(private, curious, config.seed, share, config.split)


def load_data(config: ResolvedConfig) -> Dataset | ClientStore:
    """The data set by name, in memory or, for `store`, on disk.

    Raises:
      ValueError, OSError: it is not fit for the model, or cannot be read.
    """
    if config.dataset != "store":
        return loading.load_dataset(config)
    if config.data_dir is None:
        raise ValueError("dataset store needs data_dir, where its files are")
    store = open_store(Path(config.data_dir).expanduser())
    if config.model == "paper_cnn" and store.example_shape == (28, 28, 1):
        raise ValueError(
            "model paper_cnn takes 32×32×3 images, which a store is not enlarged to; "
            "use model=leaf_cnn"
        )
    if config.model in FEATURE_MODELS:
        raise ValueError(
            f"model {config.model} needs the images in memory, where their features "
            "are computed; name the data set that the store was made of"
        )
    loading.check_inputs(config, store.example_shape)
    return loading.evaluated_on(store, config.max_test_examples)


def federate(
    configs: Sequence[ResolvedConfig], dataset: Dataset | ClientStore
) -> FederatedData:
    """The federation of each cell; a store has one cell.

    Each seed has one split, and all splits are padded to one shape. A corrupted client
    trains on changed copies of its examples, which stand behind all examples.
    """
    if isinstance(dataset, ClientStore):
        (config,) = configs
        return _federate_store(config, dataset)
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
    attributes = loading.attributes_of(
        first, dataset, dataset.train_labels, dataset.columns
    )
    examples = preprocessing.device_examples(
        dataset.train_inputs,
        dataset.train_labels,
        attributes.ids,
        dataset.train_targets,
        dataset.train_persons if dataset.rows_per_person is not None else None,
    )
    from_records, name = [*dataset.from_records], first.column
    if name is not None and not dataset.columns[name].public:
        from_records.append(f"the categories of {name}")
    protected = np.ones(len(attributes.ids), bool)  # what the relation is about
    if first.clip.is_query:
        protected = attributes.ids == attributes.private
    changed, num_rows = [examples], len(dataset.train_labels)
    dealt: dict[int, tuple[Any, ...]] = {}  # by seed
    for seed in dict.fromkeys(config.seed for config in configs):
        config = dataclasses.replace(first, seed=seed)
        parts = loading.client_parts(config, dataset)
        division = division_of(config, attributes.private)
        split = division.split(parts, attributes.ids, dataset.train_persons)
        copies = train_validation.most_copies(split, protected)
        corrupted = np.zeros(config.num_clients, bool)
        if config.corrupted_share > 0:
            examples_of_corrupted, split, corrupted = corrupt_clients(
                examples,
                split,
                first_copy=num_rows,
                settings=config,
                num_classes=dataset.num_classes,
                root=prng.root_key(seed),
            )
            changed.append(examples_of_corrupted)
            num_rows += len(examples_of_corrupted.labels)
        names = loading.client_names(config, dataset, parts)
        dealt[seed] = split, corrupted, copies, names
    by_cell = [dealt[config.seed] for config in configs]
    splits, corrupted_clients, most_copies, client_names = zip(*by_cell, strict=True)
    split = train_validation.stack_splits(splits)
    if len(changed) > 1:
        examples = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *changed)
    counts = train_validation.attribute_counts(
        split.train,
        split.num_train,
        np.asarray(examples.attributes),
        len(attributes.names),
    )
    tested = loading.test_attributes(first, dataset)
    return FederatedData(
        examples=examples,
        test=preprocessing.device_examples(
            dataset.test_inputs, dataset.test_labels, tested, dataset.test_targets
        ),
        split=split,
        counts=count_attributes(first, dataset, attributes, tested, counts),
        num_train=np.asarray(split.num_train),
        most_copies=most_copies,
        from_records=tuple(dict.fromkeys(from_records)),
        num_classes=dataset.num_classes,
        corrupted=np.stack(corrupted_clients),
        fingerprint=fingerprint,
        warmup=warmup,
        validation=chooses,
        client_names=client_names[0],
        rows_per_person=dataset.rows_per_person,
        bought=dataset.schema.bought if dataset.schema else (0, 0.0),
    )


def _federate_store(config: ResolvedConfig, store: ClientStore) -> FederatedData:
    """The federation of a store's clients, equal to that of a run in memory.

    Raises:
      ValueError: the partition is not `by_writer`: a store knows its clients.
    """
    if config.partition != "by_writer":
        raise ValueError(
            "partition must be by_writer for dataset store, whose clients are given, "
            f"got {config.partition}"
        )
    if config.influence_filter != "none" or config.corrupted_share > 0:
        raise ValueError(
            "influence_filter must be none and corrupted_share 0 for dataset store: "
            "both need every client's examples at hand"
        )
    fingerprint = store.fingerprint
    store, chooses = loading.withhold_validation(config, store)
    classes = np.arange(store.num_classes, dtype=np.int32)
    attributes = loading.attributes_of(config, store, classes, {})
    clients = StoredClients(
        store=store,
        chosen=partition.draw_writers(
            store.clients[:, 1],
            config.num_clients,
            min_examples=train_validation.least_examples(
                config.dataset, config.batch_size, config.train_fraction
            ),
            seed=config.seed,
        ),
        attribute_table=attributes.ids,
        num_attributes=config.num_attributes,
        division=division_of(config, attributes.private),
    )
    train, validation = clients.attribute_counts()
    num_train, num_validation = train.sum(1), validation.sum(1)
    sizes = np.sort(num_train + num_validation)
    reader = CohortReader(
        clients,
        cohort_size=config.cohort_size,
        num_examples=int(sizes[-config.cohort_size :].sum()),
        longest_train=int(num_train.max()),
        longest_validation=int(num_validation.max()),
    )
    empty = reader.read(np.full(config.cohort_size, cohort.NOBODY, np.int32))
    tested = loading.test_attributes(config, store)
    return FederatedData(
        examples=empty.examples,
        test=preprocessing.device_examples(
            store.test_inputs, store.test_labels, tested
        ),
        split=cell_of(empty.split, None),
        counts=count_attributes(config, store, attributes, tested, train),
        num_train=num_train[None],
        most_copies=(store.most_copies,),
        from_records=store.from_records,
        num_classes=store.num_classes,
        corrupted=np.zeros((1, config.num_clients), bool),
        fingerprint=fingerprint,
        validation=chooses,
        reader=reader,
    )
