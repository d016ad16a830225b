"""Lines about the choices that a command made for a user's own data."""

from collections.abc import Collection

from fedsvp_jax.config import SIZED, ExperimentConfig
from fedsvp_jax.data.dataset import ClientStore, Dataset, examples_of
from fedsvp_jax.federation import loading

_OWN = ("npz", "csv", "store")
_DELTA = " (delta is 1/batch_size as published: too large for a real guarantee)"


def lines(
    config: ExperimentConfig, untyped: Collection[str], dataset: Dataset | ClientStore
) -> list[str]:
    """Lines for the defaults from the data, the private attribute, and omissions."""
    sentences = []
    names = [name for name in (*SIZED, "l2_norm_clip", "delta") if name in untyped]
    if config.dataset in _OWN and names:
        values = ", ".join(f"{name} = {getattr(config, name)}" for name in names)
        sentences.append(
            f"chosen for {len(dataset.train_labels)} examples: {values}"
            + (_DELTA if config.delta == 1 / max(config.batch_size, 2) else "")
        )
    numbered = {"private_attribute", "private_category"} <= set(untyped)
    has_names = config.dataset in (*_OWN, "adult") and isinstance(dataset, Dataset)
    if numbered and has_names and config.num_attributes > 1:
        assert isinstance(dataset, Dataset)
        attributes = loading.attributes_of(
            config, dataset, dataset.train_labels, dataset.columns
        )
        private = attributes.names[attributes.private]
        sentences.append(
            f"chosen as private: {private}, of {', '.join(attributes.names)} "
            "(that a row belongs to it is not hidden); --private_category or "
            "--private_attribute names another one"
        )
    if isinstance(dataset, Dataset) and dataset.schema is not None:
        sentences.append(f"left out of training: {_left_out(config, dataset)}")
    return sentences


def _left_out(config: ExperimentConfig, dataset: Dataset) -> str:
    """The columns, clients and rows of a table that no client trains on."""
    assert dataset.schema is not None
    columns = dataset.schema.columns.items()
    names = [name for name, column in columns if column.type == "drop"]
    parts = [f"columns {', '.join(names)}"] if names else []
    sizes = examples_of(dataset.train_writers)
    clients = config.num_clients if sizes is None else len(sizes)
    if config.partition == "by_writer" and clients > config.num_clients:
        parts.append(f"{clients - config.num_clients} of {clients} clients")
    if config.num_hbc_clients and config.num_attributes > 1:
        parts.append(
            f"the private rows of {config.num_hbc_clients} honest-but-curious clients"
        )
    share = f"{100 * (1 - config.train_fraction):.3g} % of each client's other rows"
    tested = f"{len(dataset.test_labels)} rows for the test"
    if dataset.test_writers is not None and (dataset.test_writers < 0).any():
        withheld = int((dataset.test_writers < 0).sum())
        tested += f" ({withheld} of them of clients that have no other)"
    return ", ".join([*parts, tested, share])
