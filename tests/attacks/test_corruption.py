"""Corruption of one participant's examples, and of a federation's clients."""

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Examples, Split
from fedsvp_jax.federation import corruption
from fedsvp_jax.influence.settings import CorruptionSettings

LABELS = jnp.arange(40, dtype=jnp.int32) % 10
IMAGES = jax.random.randint(jax.random.key(0), (40, 8, 8, 1), 0, 256).astype(jnp.uint8)


def corrupted(kind: str, share: float = 0.9, count: int = 40) -> np.ndarray:
    labels = corruption.corrupt(
        LABELS, count, CorruptionSettings(kind, 1.0, share), 10, jax.random.key(3)
    )
    assert labels.dtype == LABELS.dtype
    return np.asarray(labels)


def test_a_share_of_the_labels_is_corrupted_and_no_other():
    changed = corrupted("flipped_pairs", share=0.9, count=30) != LABELS
    assert changed.sum() == 27 and not changed[30:].any()


def test_what_each_kind_does():
    np.testing.assert_array_equal(corrupted("flipped_pairs", 1.0), (LABELS + 1) % 10)
    assert len(np.unique(corrupted("one_class", share=1.0))) == 1
    random = corrupted("random_labels", share=1.0)
    assert len(np.unique(random)) > 5 and np.mean(random == LABELS) < 0.5
    np.testing.assert_array_equal(random, corrupted("random_labels", share=1.0))


def test_a_corrupted_client_gets_copies_and_the_others_keep_theirs():
    examples = Examples(IMAGES, LABELS, LABELS % 2)
    rows = jnp.asarray([[0, 1, 2], [2, 3, 0], [4, 5, 0]], jnp.int32)
    split = Split(
        rows, jnp.asarray([3, 2, 2]), rows[:, :1] + 10, jnp.ones(3, jnp.int32)
    )
    copied, dealt, corrupted_clients = corruption.corrupt_clients(
        examples,
        split,
        first_copy=40,
        settings=CorruptionSettings("flipped_pairs", 1 / 3, 1.0),
        num_classes=10,
        root=prng.root_key(0),
    )
    (bad,) = np.flatnonzero(corrupted_clients)
    copies = np.concatenate([LABELS, copied.labels])
    for client in range(3):
        count = int(split.num_train[client])
        before = np.asarray(LABELS[split.train[client, :count]])
        now = copies[np.asarray(dealt.train[client, :count])]
        np.testing.assert_array_equal(now, (before + (client == bad)) % 10)
        validates = copies[int(dealt.validation[client, 0])]
        before = int(LABELS[split.validation[client, 0]])
        assert validates == (before + (client == bad)) % 10
    held = [*split.train[bad, : int(split.num_train[bad])], split.validation[bad, 0]]
    np.testing.assert_array_equal(
        copied.attributes, examples.attributes[np.asarray(held)]
    )
