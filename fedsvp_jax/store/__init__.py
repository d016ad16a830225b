"""Clients on disk, where the memory cannot hold all: a round reads its cohort."""

from pathlib import Path

from fedsvp_jax.data.dataset import Facts
from fedsvp_jax.store.federation import federate, load
from fedsvp_jax.store.folder import open_store

__all__ = ["facts", "federate", "load"]


def facts(folder: Path) -> Facts:
    """The facts that defaults depend on; empty where there is no store yet.

    Raises:
      OSError, ValueError: as `open_store`.
    """
    if not (folder / "store.json").is_file():
        return Facts()
    store = open_store(folder)
    return Facts(len(store.train_labels), store.clients[:, 1])
