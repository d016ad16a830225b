"""The data that the settings name, and how they deal it: attributes and clients."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core import prng
from fedsvp_jax.core.common_settings import EvaluationSettings
from fedsvp_jax.core.files import toml_beside
from fedsvp_jax.core.settings import FEATURE_MODELS, TABLE_MODELS
from fedsvp_jax.core.structs import Examples
from fedsvp_jax.data import attributes, partition, preprocessing, sources
from fedsvp_jax.data.attributes import Attributes
from fedsvp_jax.data.dataset import (
    ClientStore,
    Column,
    Dataset,
    Names,
    Shape,
    check_one_client,
)
from fedsvp_jax.data.train_validation import least_examples, least_units
from fedsvp_jax.models import kept_features

Data = TypeVar("Data", bound=Dataset | ClientStore)


def load_dataset(config: ResolvedConfig) -> Dataset:
    """The data set by name, in memory, in the layout that the model takes.

    Raises:
      ValueError, OSError: it is not fit for the model, or cannot be read.
    """
    if config.dataset == "store":
        raise ValueError(
            "dataset store is read a cohort at a time, which a single run alone does; "
            "name the data set that the store was made of"
        )
    dataset = sources.load(config.dataset, config.data_dir, config)
    if config.model == "paper_cnn" and dataset.example_shape == (28, 28, 1):
        dataset = dataclasses.replace(
            dataset,
            train_inputs=preprocessing.to_rgb32(dataset.train_inputs),
            test_inputs=preprocessing.to_rgb32(dataset.test_inputs),
        )
    check_inputs(config, dataset.example_shape)
    if config.model in FEATURE_MODELS:
        dataset = kept_features.of_images(config.model, dataset, config.features_dir)
    return evaluated_on(dataset, config.max_test_examples)


def check_inputs(config: ResolvedConfig, example_shape: Shape) -> None:
    """Raises ValueError: the model or `augment` does not go with such examples."""
    images = len(example_shape) == 3
    if config.model not in TABLE_MODELS and not images:
        raise ValueError(
            f"model {config.model} needs images, and dataset {config.dataset} has "
            f"examples of the shape {example_shape}; use model=mlp or logistic"
        )
    if config.augment and not images:
        raise ValueError(f"augment needs images, dataset {config.dataset} has none")
    if config.augment and config.model in FEATURE_MODELS:
        raise ValueError(
            f"augment does not go with model {config.model}, whose features are "
            "computed once for each image"
        )


def evaluated_on(dataset: Data, limit: int | None) -> Data:
    """The data with at most so many test examples, evenly spaced."""
    count = len(dataset.test_labels)
    if limit is None or limit >= count:
        return dataset
    return _only(dataset, "test", np.arange(limit) * count // limit)


def _only(dataset: Data, side: str, rows: np.ndarray) -> Data:
    """The data with these rows of its `train` or `test` examples."""

    def selected(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                name: column._replace(codes=column.codes[rows])
                for name, column in value.items()
            }
        return None if value is None else value[rows]

    fields = [field.name for field in dataclasses.fields(dataset)]
    names = [name for name in fields if name.startswith(f"{side}_")]
    if side == "train":
        names.append("columns")
    changes: dict[str, Any] = {name: selected(getattr(dataset, name)) for name in names}
    return dataclasses.replace(dataset, **changes)


def withhold(dataset: Dataset, size: int, seed: int) -> tuple[Dataset, Examples]:
    """The data without the centre's warm-up examples, and these.

    Raises:
      ValueError: warmup_examples leaves nothing to the clients.
    """
    count = len(dataset.train_labels)
    if size >= count:
        raise ValueError(
            f"warmup_examples must be < {count}, the training examples, got {size}"
        )
    rng = np.random.default_rng((seed, prng.Stream.PARTITION, prng.Stream.INFLUENCE))
    chosen, rest = np.split(rng.permutation(count), [size])
    rest.sort()
    warmup = preprocessing.device_examples(
        dataset.train_inputs[chosen], dataset.train_labels[chosen]
    )
    return _only(dataset, "train", rest), warmup


def withhold_validation(
    config: EvaluationSettings, dataset: Data
) -> tuple[Data, Examples | None]:
    """The data without the server's validation examples, and these.

    They are drawn from the test examples, whatever the seed: the cells of a sweep and
    runs that are compared have one test set.

    Raises:
      ValueError: validation_examples leaves nothing to test.
    """
    count, size = len(dataset.test_labels), config.validation_examples
    if size == 0:
        return dataset, None
    if size >= count:
        raise ValueError(
            f"validation_examples must be < {count}, the test examples, got {size}"
        )
    order = prng.generator(0, prng.Draw.SERVER_VALIDATION).permutation(count)
    chosen, rest = np.sort(order[:size]), np.sort(order[size:])
    selected = _only(dataset, "test", chosen)
    validation = preprocessing.device_examples(
        selected.test_inputs, selected.test_labels, targets=selected.test_targets
    )
    return _only(dataset, "test", rest), validation


def test_attributes(
    config: ResolvedConfig, dataset: Dataset | ClientStore
) -> np.ndarray | None:
    """(m,) each test example's attribute; None where the data set does not tell.

    None too where it has targets: a score by attribute is an accuracy.
    """
    columns = dataset.test_columns
    unknown = config.column not in (None, *columns)
    if dataset.test_targets is not None or config.num_attributes == 1 or unknown:
        return None
    return attributes_of(config, dataset, dataset.test_labels, columns).ids


def attributes_of(
    config: ResolvedConfig,
    dataset: Dataset | ClientStore,
    labels: np.ndarray,
    columns: Mapping[str, Column],
) -> Attributes:
    """The attribute of each example, as --attributes names them.

    Raises:
      ValueError: the data set lacks the column or the class asked for.
    """
    name, private = config.column, config.private_attribute
    if config.num_attributes == 1:
        return Attributes(np.zeros(len(labels), np.int32), ("everything",), private=0)
    if config.attributes == "class":
        return attributes.class_private(
            labels,
            private,
            num_classes=dataset.num_classes,
            num_attributes=config.num_attributes,
            class_names=dataset.class_names,
        )
    if name is None:
        raise ValueError(
            f"attributes must be class or column:NAME, got {config.attributes!r}"
        )
    if name not in columns:
        allowed = ", ".join(columns) or "none"
        raise ValueError(
            f"attributes=column:{name}: dataset {dataset.name} has the columns "
            f"{allowed}"
        )
    column = columns[name]
    count = len(column.categories)
    if not 0 <= private < count:
        raise ValueError(
            f"private_attribute must be in [0, {count}), the categories of column "
            f"{name}, got {private}"
        )
    if count != config.num_attributes:
        raise ValueError(
            f"num_attributes must be {count}, the categories of column {name}, got "
            f"{config.num_attributes}"
        )
    return Attributes(column.codes, column.categories, private)


def private_classes(
    config: ResolvedConfig, dataset: Dataset | ClientStore
) -> tuple[int, ...]:
    """The classes of the private attribute; none where attributes are no classes."""
    if config.attributes != "class" or config.num_attributes == 1:
        return ()
    numbers = np.arange(dataset.num_classes, dtype=np.int32)
    classes = attributes_of(config, dataset, numbers, {})
    return tuple(np.flatnonzero(classes.ids == classes.private).tolist())


def check_persons(config: ResolvedConfig, dataset: Dataset) -> None:
    """Refuses what would part a person's rows, where the data say whose each is.

    Raises:
      ValueError: a setting that divides single rows, or a person with rows of several
        writers, each of whom is a client.
    """
    if dataset.train_persons is None:
        return
    needed = toml_beside(__file__, "persons.toml")
    if config.num_attributes == 1:
        needed["split"].append("stratified")
    for name, allowed in needed.items():
        if (value := getattr(config, name)) not in allowed:
            raise ValueError(
                f"{name} must be {' or '.join(map(str, allowed))} for data with a "
                f"person column, whose rows of one person stay together, got {value}"
            )
    if config.partition == "by_writer" and dataset.train_writers is not None:
        check_one_client(
            dataset.train_persons,
            dataset.train_writers,
            dataset.writer_names,
            f"dataset {dataset.name}",
        )


def neighbour_assumptions(config: ResolvedConfig, bought: int = 0) -> str:
    """The assumptions on neighbours that dealing and splitting the examples make.

    The claim of a mechanism takes each client's training examples as given and their
    number as public. The sentences say what this leaves out. Bounds that were `bought`
    were not declared.
    """
    assignment = "which client holds which record is given"
    if config.partition in ("paper", "dirichlet"):
        assignment += f", although partition={config.partition} looks at the labels"
    sentences = [assignment, "the server's examples, for the test too, do not change"]
    if config.schema or config.classes:
        sentences.append(
            f"{'' if bought else 'bounds, '}categories and classes were declared "
            "without a look at the records, and every neighbour keeps to the declared "
            "categories and classes"
        )
    if config.num_attributes > 1 and config.split == "stratified":
        sentences.append(
            "a replaced record keeps its attribute, because split=stratified looks at "
            "the attributes and decides which and how many records are for training"
        )
    elif config.num_attributes > 1 and config.num_hbc_clients:
        sentences.append(
            "no record of an honest-but-curious client is replaced by a private one, "
            "because private records are removed from these clients"
        )
    return "; ".join(sentences)


def client_parts(config: ResolvedConfig, dataset: Dataset) -> list[np.ndarray]:
    """Each client's example indices, by `config.partition` and `config.seed`.

    Where examples have persons these are dealt, each with all of its examples.
    """
    labels, writers = dataset.train_labels, dataset.train_writers
    persons = dataset.train_persons
    min_examples = least_examples(
        config.dataset, config.batch_size, config.train_fraction
    )
    if persons is not None:
        _, first, owners = np.unique(persons, return_index=True, return_inverse=True)
        labels, min_examples = labels[first], least_units(config.train_fraction)
        writers = None if writers is None else writers[first]
    number, seed = config.num_clients, config.seed
    match config.partition:
        case "iid":
            parts = partition.iid(len(labels), number, seed=seed)
        case "paper":
            parts = partition.paper(labels, number, share=config.class_share, seed=seed)
        case "dirichlet":
            parts = partition.dirichlet(
                labels,
                number,
                alpha=config.dirichlet_alpha,
                min_examples=min_examples,
                seed=seed,
            )
        case _ if writers is None:
            raise ValueError(
                f"partition=by_writer needs writers; dataset {dataset.name} has none"
            )
        case _:
            parts = partition.by_writer(
                writers, number, min_examples=min_examples, seed=seed
            )
    if persons is None:
        return parts
    by_person = partition.rows_by_owner(owners)
    return [np.sort(np.concatenate([by_person[i] for i in part])) for part in parts]


def client_names(
    config: ResolvedConfig, dataset: Dataset, parts: Sequence[np.ndarray]
) -> Names | None:
    """(M,) the writers' names with partition=by_writer; None if they have none."""
    writers, names = dataset.train_writers, dataset.writer_names
    if config.partition != "by_writer" or writers is None or names is None:
        return None
    return tuple(names[int(writers[part[0]])] for part in parts)
