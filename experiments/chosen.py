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
    return messages.filled(
        "chosen.txt",
        config=config,
        values=values,
        dataset=dataset,
        is_own=config.dataset in OWN_DATA,
        sized=SIZED,
        attributes_of=loading.attributes_of,
    )
