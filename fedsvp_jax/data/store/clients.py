"""The examples of a store's clients, one client in memory at a time.

Clients, training and validation examples are the same as those that
`partition.by_writer` and `train_validation.Division` give for the same data in
memory.
"""

from typing import NamedTuple

import numpy as np

from ..dataset import ClientStore
from ..train_validation import Division
from .folder import examples_of

_TOGETHER = 2**16  # clients whose examples are counted at once


class HeldExamples(NamedTuple):
    """One client's examples in a run: first for training, then for validation."""

    inputs: np.ndarray  # (n, *example_shape)
    labels: np.ndarray  # (n,) int32
    attributes: np.ndarray  # (n,) int32
    num_train: int


class StoredClients(NamedTuple):
    """The clients of a run whose examples lie in a store, and their rows.

    Attributes:
      store: holds their examples.
      chosen: (M,) the number in the store of the clients 0, 1, ..., M - 1.
      attribute_table: (classes,) int32, the attribute of each label.
      num_attributes: N.
      division: into training and validation.
    """

    store: ClientStore
    chosen: np.ndarray
    attribute_table: np.ndarray
    num_attributes: int
    division: Division

    def client(self, client: int) -> HeldExamples:
        """Reads one client's examples from the store.

        Raises:
          ValueError: the client has no training or no validation examples, or the
            store is damaged.
        """
        inputs, labels = examples_of(self.store, int(self.chosen[client]))
        attributes = self._attributes(client)
        train, validation = self.division.of_client(client, attributes)
        positions = np.concatenate([train, validation])
        return HeldExamples(
            inputs[positions], labels[positions], attributes[positions], len(train)
        )

    def _attributes(self, client: int) -> np.ndarray:
        """(n,) int32: the attributes of a client's examples."""
        labels = self.store.train_labels[self.store.rows(int(self.chosen[client]))]
        return self.attribute_table[labels]

    def attribute_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """`(train, validation)`: numbers of examples per client and attribute, (M, N).

        Raises:
          ValueError: a client has no training or no validation examples.
        """
        counts = np.zeros((len(self.chosen), self.num_attributes), int)
        for first in range(0, len(counts), _TOGETHER):
            starts, numbers = self.store.clients[self.chosen[first:][:_TOGETHER]].T
            clients = np.repeat(first + np.arange(len(numbers)), numbers)
            before = np.cumsum(numbers) - numbers
            rows = np.arange(len(clients)) + np.repeat(starts - before, numbers)
            attributes = self.attribute_table[self.store.train_labels[rows]]
            np.add.at(counts, (clients, attributes), 1)
        return self.division.counts(counts, self._attributes)
