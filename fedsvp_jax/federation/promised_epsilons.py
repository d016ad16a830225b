"""--client_epsilons: the ε of each client of a federation, by what it is called."""

from collections.abc import Sequence

import numpy as np

from fedsvp_jax import extras
from fedsvp_jax.config import FederationSettings
from fedsvp_jax.data.dataset import Dataset


def promised_epsilons(
    config: FederationSettings, names: Sequence[str]
) -> np.ndarray | None:
    """(M,) the ε of each client; None without --client_epsilons.

    Args:
      config: with `total_epsilon`, which the clients have that the file does not name.
      names: (M,) what the file calls them.

    Raises:
      ValueError: the file is not right, or nothing is promised to the others.
    """
    if config.client_epsilons is None:
        return None
    if config.total_epsilon is None:
        raise ValueError(
            "client_epsilons needs total_epsilon, the ε of the clients that "
            f"{config.client_epsilons} does not name"
        )
    read = extras.around("tables.client_epsilons").read_client_epsilons
    found: np.ndarray = read(config.client_epsilons, names, config.total_epsilon)
    return found


def client_names(
    config: FederationSettings, dataset: Dataset, parts: Sequence[np.ndarray]
) -> list[str]:
    """(M,) each client's number, or with partition=by_writer its writer's name."""
    if config.partition != "by_writer" or dataset.train_writers is None:
        return list(map(str, range(len(parts))))
    writers = [int(dataset.train_writers[part[0]]) for part in parts]
    names = dataset.writer_names
    return [str(one) if names is None else names[one] for one in writers]
