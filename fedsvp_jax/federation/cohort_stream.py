"""The cohorts of a store's clients, drawn and read by the host.

A cohort depends on the seed, the round and, where uploads are limited, on who uploaded
before, never on the parameters. So the host draws the one that the compiled round would
draw: `cohort.cohort_of_round` of the same arguments.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.core.structs import Array, Examples, Split
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.store.clients import StoredClients
from fedsvp_jax.round import cohort


class Cohort(NamedTuple):
    """One round's clients and their examples."""

    clients: Array  # (K,) int32 ascending, then -1 where nobody takes part
    split: Split  # leaves (K, ...), indices into `examples`
    examples: Examples  # (num_examples, ...), zeros at the end


# (round from 0, (M,) int32 spent by client before it, as in `ServerState`) -> cohort
CohortStream = Callable[[int, Array], Cohort]


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
            Split(*map(jnp.asarray, (train, num_train, validation, num_validation))),
            preprocessing.device_examples(inputs, labels, attributes),
        )

    def stream(self, root: Array, cohorts: str, allowance: Allowance) -> CohortStream:
        """Draws and reads the cohort of each round of a run.

        Args:
          root: the run's root key.
          cohorts: drawn or cyclic, as `cohort.cohort_of_round` takes it.
          allowance: keeps the run's promise.
        """
        draw = jax.jit(
            partial(
                cohort.cohort_of_round, cohort_size=self.cohort_size, cohorts=cohorts
            )
        )
        return lambda round_num, spent: self.read(
            np.asarray(draw(root, allowance, spent, round_num))
        )
