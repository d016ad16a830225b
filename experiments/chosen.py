"""Lines about the choices that a command made for a user's own data."""

from typing import Any

from fedsvp_jax.config import OWN_DATA, SIZED, ResolvedConfig
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.federation import loading

from . import messages


def text(config: ResolvedConfig, values: Any, dataset: Dataset | ClientStore) -> str:
    """Lines for the defaults from the data, the private attribute, and omissions.

    Args:
      values: the flags, of which a typed one is nobody's default.
    """

    def is_default(name: str) -> bool:
        return name not in values or values[name].using_default_value

    is_own = config.dataset in OWN_DATA
    names = [*filter(is_default, (*SIZED, "l2_norm_clip", "delta"))]
    attributes = None
    if isinstance(dataset, Dataset) and (is_own or config.dataset == "adult"):
        numbered = map(is_default, ("private_attribute", "private_category"))
        if all(numbered) and config.num_attributes > 1:
            attributes = loading.attributes_of(
                config, dataset, dataset.train_labels, dataset.columns
            )
    return messages.filled(
        "chosen.txt",
        config=config,
        dataset=dataset,
        sized=names if is_own else (),
        attributes=attributes,
    )
