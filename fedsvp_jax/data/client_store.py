"""What is known of clients on disk, which exceed the memory."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class ClientStore:
    """A data set on disk, by client: `store` opens it and reads its clients.

    All its arrays are mapped, except `clients` and `digests`, which are in memory.

    Attributes:
      name: the data set that the store was made from.
      train_inputs: (n, *example_shape) uint8 or float32.
      train_labels: (n,) int32 in [0, num_classes).
      clients: (S, 2) int64: each client's first row and number of rows (at least 1).
      digests: (S, 32) uint8: SHA-256 of each client's examples.
      test_inputs: (m, *example_shape).
      test_labels: (m,) int32.
      num_classes: number of classes.
      fingerprint: SHA-256 of the digests and of what is not the clients'.
      most_copies: the most clients that hold one example.
      from_records: as `Dataset` has it.
    """

    name: str
    train_inputs: np.ndarray
    train_labels: np.ndarray
    clients: np.ndarray
    digests: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray
    num_classes: int
    fingerprint: str
    most_copies: int = 1
    from_records: tuple[str, ...] = ()

    @property
    def example_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.train_inputs.shape[1:]

    def rows(self, client: int) -> slice:
        """The rows of one client in `train_inputs` and `train_labels`."""
        first, count = self.clients[client].tolist()
        return slice(first, first + count)
