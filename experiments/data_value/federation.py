"""Small federations whose clients hold very different shares of private records."""

from typing import NamedTuple

import numpy as np

from fedsvp_jax.data.dataset import Dataset

from ..decisive.risk import flat

CLIENTS, RECORDS_PER_CLIENT = 10, 8
RECORDS = CLIENTS * RECORDS_PER_CLIENT
PRIVATE_SHARE = 0.3  # mean of a client's, by Dirichlet(.3, .7) of (private, other)
LEAST_PRIVATE = 10  # of a federation, and as many others; else its shares are redrawn
PUBLIC_CLIENTS = 20  # records of clients that take part in nothing
ASKED = 1000  # test records, and as many others for utilities


class Records(NamedTuple):
    """Some records of a data set."""

    inputs: np.ndarray  # (n, d) float32
    labels: np.ndarray  # (n,) int32
    private: np.ndarray  # (n,) bool: of the private attribute


class Federation(NamedTuple):
    """The members of one federation, and records outside of it."""

    pool: Records  # of all clients, client by client
    public: Records
    validation: Records  # on which utilities are measured
    test: Records  # on which accuracy is measured
    num_classes: int


def is_private(data: Dataset, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of training and test records: MNIST's digit seed mod 10, Adult's married."""
    if data.name == "mnist":
        return data.train_labels == seed % 10, data.test_labels == seed % 10
    parts = data.columns["marital-status"], data.test_columns["marital-status"]
    married = parts[0].categories.index("Married-civ-spouse")
    return parts[0].codes == married, parts[1].codes == married


def draw(data: Dataset, seed: int) -> Federation:
    """The federation of a seed: no record is drawn twice.

    A client's share of private records is drawn from Beta(.3, .7). Validation and test
    records have the share .3.
    """
    rng = np.random.default_rng((seed, RECORDS))
    private = is_private(data, seed)
    train = [rng.permutation(np.flatnonzero(private[0] == side)) for side in (1, 0)]
    test = [rng.permutation(np.flatnonzero(private[1] == side)) for side in (1, 0)]

    def taken(rows: list[np.ndarray], count: int, of_private: int) -> np.ndarray:
        """The next rows, first private ones."""
        counts = of_private, count - of_private
        chosen = [rows[side][: counts[side]] for side in (0, 1)]
        rows[:] = [rows[side][counts[side] :] for side in (0, 1)]
        return np.concatenate(chosen)

    def clients(count: int) -> np.ndarray:
        """The records of so many clients."""
        counts = np.zeros(count, int)
        most = count * RECORDS_PER_CLIENT - LEAST_PRIVATE
        while not LEAST_PRIVATE <= counts.sum() <= most:
            shares = rng.beta(PRIVATE_SHARE, 1 - PRIVATE_SHARE, count)
            counts = np.rint(shares * RECORDS_PER_CLIENT).astype(int)
        parts = [taken(train, RECORDS_PER_CLIENT, private) for private in counts]
        return np.concatenate(parts)

    def asked() -> np.ndarray:
        return taken(test, ASKED, round(PRIVATE_SHARE * ASKED))

    def records(rows: np.ndarray, part: int) -> Records:
        inputs = (data.train_inputs, data.test_inputs)[part][rows]
        labels = (data.train_labels, data.test_labels)[part][rows]
        return Records(flat(inputs), labels.astype(np.int32), private[part][rows])

    return Federation(
        pool=records(clients(CLIENTS), 0),
        public=records(clients(PUBLIC_CLIENTS), 0),
        validation=records(asked(), 1),
        test=records(asked(), 1),
        num_classes=data.num_classes,
    )
