"""Lines about the choices that a command made for a user's own data."""

from collections.abc import Collection

from fedsvp_jax.config import SIZED, ResolvedConfig
from fedsvp_jax.data.dataset import ClientStore, Dataset, examples_of
from fedsvp_jax.federation import loading

from . import messages

_OWN = ("npz", "csv", "store")


def lines(
    config: ResolvedConfig, untyped: Collection[str], dataset: Dataset | ClientStore
) -> list[str]:
    """Lines for the defaults from the data, the private attribute, and omissions."""
    is_own = config.dataset in _OWN
    names = [name for name in (*SIZED, "l2_norm_clip", "delta") if name in untyped]
    numbered = {"private_attribute", "private_category"} <= set(untyped)
    attributes, schema, dropped = None, None, []
    clients, withheld = config.num_clients, 0
    if isinstance(dataset, Dataset):
        has_names = is_own or config.dataset == "adult"
        if has_names and numbered and config.num_attributes > 1:
            attributes = loading.attributes_of(
                config, dataset, dataset.train_labels, dataset.columns
            )
        schema = dataset.schema
        if (sizes := examples_of(dataset.train_writers)) is not None:
            clients = len(sizes)
        if dataset.test_writers is not None:
            withheld = int((dataset.test_writers < 0).sum())
    if schema is not None:
        columns = schema.columns.items()
        dropped = [name for name, column in columns if column.type == "drop"]
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
