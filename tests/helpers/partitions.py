"""1,000 labels, their writers and attributes, and every partition of them."""

from collections.abc import Callable

import numpy as np

from fedsvp_jax.data import attributes, partition

LABELS = np.random.default_rng(0).permutation(
    np.repeat(np.arange(10, dtype=np.int32), 100)
)
WRITERS = np.random.default_rng(1).integers(0, 30, 1000).astype(np.int32)
ATTRIBUTES = attributes.class_private(LABELS, 5, num_classes=10)

Parts = list[np.ndarray]
PARTITIONS: dict[str, Callable[[int, int], Parts]] = {
    "iid": lambda clients, seed: partition.iid(len(LABELS), clients, seed=seed),
    "paper": lambda clients, seed: partition.paper(LABELS, clients, seed=seed),
    "shards": lambda clients, seed: partition.shards(LABELS, clients, seed=seed),
    "dirichlet": lambda clients, seed: partition.dirichlet(
        LABELS, clients, alpha=0.5, min_examples=10, seed=seed
    ),
    "by_writer": lambda clients, seed: partition.by_writer(WRITERS, clients, seed=seed),
}
