"""The cohorts of a store's clients: drawn by the host, read a round ahead.

A cohort depends on the seed, the round and, under a promise, on who uploaded before,
never on the parameters. So the host draws the one that the compiled round would draw
(`cohort.cohort_of_round` of the same arguments) and reads the clients of round t + 1
while round t runs.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.core.structs import Array, Split
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.store.clients import StoredClients
from fedsvp_jax.federation.client_data import Cohort
from fedsvp_jax.round import cohort


class CohortReader(NamedTuple):
    """Reads cohorts of a store's clients as arrays of one shape.

    One shape for every cohort means one compiled program for every round.
    """

    clients: StoredClients
    cohort_size: int  # K
    num_examples: int  # places for all clients' examples: the K largest fit
    longest_train: int
    longest_validation: int

    def read(self, clients: np.ndarray) -> Cohort:
        """The examples of the clients (K,), one client after another.

        Args:
          clients: ids, -1 where nobody takes part.
        """
        stored = self.clients.store.train_inputs
        inputs = np.zeros((self.num_examples, *stored.shape[1:]), stored.dtype)
        labels, attributes = np.zeros((2, self.num_examples), np.int32)
        train = np.zeros((self.cohort_size, self.longest_train), np.int32)
        validation = np.zeros((self.cohort_size, self.longest_validation), np.int32)
        num_train, num_validation = np.zeros((2, self.cohort_size), np.int32)
        start = 0
        for place in np.flatnonzero(clients >= 0):
            client = self.clients.client(int(clients[place]))
            stop = start + len(client.labels)
            middle = start + client.num_train
            inputs[start:stop] = client.inputs
            labels[start:stop] = client.labels
            attributes[start:stop] = client.attributes
            train[place, : middle - start] = np.arange(start, middle)
            validation[place, : stop - middle] = np.arange(middle, stop)
            num_train[place], num_validation[place] = middle - start, stop - middle
            start = stop
        return Cohort(
            jnp.asarray(clients, jnp.int32),
            Split(
                train=jnp.asarray(train),
                num_train=jnp.asarray(num_train),
                validation=jnp.asarray(validation),
                num_validation=jnp.asarray(num_validation),
            ),
            preprocessing.device_examples(inputs, labels, attributes),
        )

    def stream(self, **how: Any) -> "CohortStream":
        """The cohorts of a run; the arguments are those of `CohortStream`."""
        return CohortStream(self, **how)


class CohortStream:
    """Draws the cohort of each round and reads the next one ahead in a thread.

    Args:
      reader: reads the cohorts that were drawn.
      root: the run's root key.
      num_rounds: rounds of the run; nothing is read beyond.
      cohorts: drawn or cyclic, as `cohort.cohort_of_round` takes it.
      allowance: keeps the run's promise.
    """

    def __init__(
        self,
        reader: CohortReader,
        *,
        root: Array,
        num_rounds: int,
        cohorts: str,
        allowance: Allowance,
    ) -> None:
        self._cohorts = reader
        self._root = root
        self._num_rounds = num_rounds
        self._allowance = allowance
        self._spent = np.zeros(len(reader.clients.chosen), np.int32)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cohort")
        self._ahead: tuple[int, Future[Cohort]] | None = None
        self._sample = jax.jit(
            partial(
                cohort.cohort_of_round,
                cohort_size=reader.cohort_size,
                cohorts=cohorts,
            )
        )

    def take(self, round_num: int, spent: Array) -> Cohort:
        """The cohort of a round; the next round's is read from now on.

        Args:
          round_num: from 0. Rounds that follow one another were read ahead; any
            other one is read now.
          spent: (M,) int32 by client before the round, as in `ServerState`; looked
            at only where the round does not follow the one before.
        """
        if self._ahead is None or self._ahead[0] != round_num:
            if self._ahead is not None:
                self._ahead[1].cancel()
            self._read_ahead(round_num, np.array(spent))
        assert self._ahead is not None
        result = self._ahead[1].result()
        self._ahead = None
        if round_num + 1 < self._num_rounds:
            self._read_ahead(round_num + 1)
        return result

    def _read_ahead(self, round_num: int, spent: np.ndarray | None = None) -> None:
        reading = self._thread.submit(self._read, round_num, spent)
        self._ahead = (round_num, reading)

    def _read(self, round_num: int, spent: np.ndarray | None = None) -> Cohort:
        """Runs in the thread, which alone counts what was spent."""
        if spent is not None:
            self._spent = spent
        clients = np.array(
            self._sample(self._root, self._allowance, self._spent, round_num)
        )
        self._spent[clients[clients >= 0]] += self._allowance.costs[round_num]
        return self._cohorts.read(clients)
