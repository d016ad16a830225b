"""Lines about the choices that a command made for a user's own data."""

from collections.abc import Collection

from fedsvp_jax.config import SIZED, ExperimentConfig
from fedsvp_jax.data.dataset import ClientStore, Dataset, examples_of
from fedsvp_jax.federation import loading

from . import messages

_OWN = ("npz", "csv", "store")


def lines(
    config: ExperimentConfig, untyped: Collection[str], dataset: Dataset | ClientStore
) -> list[str]:
    """Lines for the defaults from the data, the private attribute, and omissions."""
    is_own, in_memory = config.dataset in _OWN, isinstance(dataset, Dataset)
    has_names = in_memory and (is_own or config.dataset == "adult")
    names = [name for name in (*SIZED, "l2_norm_clip", "delta") if name in untyped]
    attributes = None
    numbered = {"private_attribute", "private_category"} <= set(untyped)
    if has_names and numbered and config.num_attributes > 1:
        attributes = loading.example_attributes(config, dataset)
    schema = dataset.schema if in_memory else None
    dropped, clients, withheld = [], config.num_clients, 0
    if schema is not None:
        columns = schema.columns.items()
        dropped = [name for name, column in columns if column.type == "drop"]
        if (sizes := examples_of(dataset.train_writers)) is not None:
            clients = len(sizes)
        if dataset.test_writers is not None:
            withheld = int((dataset.test_writers < 0).sum())
    text = messages.filled(
        "chosen.txt",
        config=config,
        dataset=dataset,
        schema=schema,
        sized={name: getattr(config, name) for name in names} if is_own else {},
        as_published=config.delta == 1 / max(config.batch_size, 2),
        attributes=attributes,
        dropped=dropped,
        num_clients=clients,
        withheld=withheld,
    )
    return text.splitlines()
