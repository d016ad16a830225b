"""What was chosen, without being asked for, for data of one's own."""

from collections.abc import Collection

from fedsvp_jax.config import SIZED, ExperimentConfig
from fedsvp_jax.data.client_store import ClientStore
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import loading

_OWN = ("npz", "csv", "store")
_DELTA = " (delta is 1/batch_size as published: too large for a real guarantee)"


def lines(
    config: ExperimentConfig, untyped: Collection[str], dataset: Dataset | ClientStore
) -> list[str]:
    """A line for defaults that follow from the data, and one for what is private."""
    found = []
    names = [name for name in (*SIZED, "l2_norm_clip", "delta") if name in untyped]
    if config.dataset in _OWN and names:
        shown = ", ".join(f"{name} = {getattr(config, name)}" for name in names)
        found.append(
            f"chosen for {len(dataset.train_labels)} examples: {shown}"
            + (_DELTA if config.delta == 1 / max(config.batch_size, 2) else "")
        )
    numbered = {"private_attribute", "private_category"} <= set(untyped)
    named = config.dataset in (*_OWN, "adult") and isinstance(dataset, Dataset)
    if numbered and named and config.num_attributes > 1:
        assert isinstance(dataset, Dataset)
        of = loading.example_attributes(config, dataset)
        found.append(
            f"chosen as private: {of.names[of.private]}, of {', '.join(of.names)}; "
            "--private_category or --private_attribute names another one"
        )
    return found
