"""The laws of each partition."""

from collections.abc import Callable
from typing import Any

import chex
import numpy as np
import pytest
from small_runs import small

from fedsvp_jax.data import partition
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import loading

LABELS = np.random.default_rng(0).permutation(
    np.repeat(np.arange(10, dtype=np.int32), 100)
)
WRITERS = np.random.default_rng(1).integers(0, 30, 1000).astype(np.int32)
PIXELS = np.zeros((1000, 1), np.uint8)
ROWS = Dataset("rows", PIXELS, LABELS, PIXELS, LABELS, 10, train_writers=WRITERS)
NAMES = ("iid", "paper", "dirichlet", "by_writer")


def dealt(name: str, clients: int, seed: int, **changes: Any) -> list[np.ndarray]:
    """By the settings, as a run deals."""
    told = {"num_clients": clients, "seed": seed, "batch_size": 4} | changes
    return loading.client_parts(small(partition=name, **told), ROWS)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_reproduces_and_another_differs(name: str) -> None:
    first, again, other = (dealt(name, 20, seed) for seed in (3, 3, 4))
    chex.assert_trees_all_equal(first, again)
    assert any(not np.array_equal(*two) for two in zip(first, other, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_every_client_holds_valid_indices_once(name: str) -> None:
    parts = dealt(name, 20, 0)
    assert len(parts) == 20
    for indices in parts:
        assert len(indices) == len(np.unique(indices)) > 0
        assert indices.min() >= 0
        assert indices.max() < len(LABELS)
    joined = np.concatenate(parts)
    if name != "paper":
        assert len(joined) == len(np.unique(joined))
        assert name == "by_writer" or len(joined) == len(LABELS)
        with pytest.raises(ValueError, match="num_clients must be between"):
            dealt(name, 1001, 0)
    if name == "iid":
        assert {len(part) for part in dealt(name, 7, 0)} == {142, 143}


def test_paper_clients_hold_the_share_of_every_class() -> None:
    """However many clients there are; at least one of each."""
    for share, count in ((0.001, 1), (0.037, 4)):
        part = partition.paper(LABELS, 2, share=share, seed=0)[1]
        np.testing.assert_array_equal(np.bincount(LABELS[part]), [count] * 10)
    parts = partition.paper(LABELS, 20, share=0.07, seed=0)
    few = partition.paper(LABELS, 3, share=0.07, seed=0)
    for indices in parts:
        np.testing.assert_array_equal(np.bincount(LABELS[indices]), [7] * 10)
    np.testing.assert_array_equal(parts[:3], few)


def test_paper_clients_overlap_as_independent_draws_do() -> None:
    """Two draws of s·n from n share s²·n in the mean (hypergeometric law)."""
    parts = partition.paper(LABELS, 200, share=0.1, seed=0)
    drawn = np.zeros((200, len(LABELS)))
    for client, indices in enumerate(parts):
        drawn[client, indices] = 1
    shared = (drawn @ drawn.T)[np.triu_indices(200, 1)]
    # A class of 100, 10 drawn twice: mean 1, variance 9 · .9 · 10 / 99 = .818.
    assert abs(shared.mean() - 10) < 5 * np.sqrt(10 * 0.818 / len(shared))


def test_dirichlet_shares_have_the_law_s_mean_and_variance() -> None:
    """p_k ~ Beta(α, (M-1)α): mean 1/M, variance (M-1) / (M² (Mα + 1))."""
    clients, alpha = 4, 0.5
    labels = np.repeat(np.arange(50, dtype=np.int32), 400)
    counts = np.stack(
        [
            np.bincount(labels[part], minlength=50)
            for seed in range(20)
            for part in partition.dirichlet(labels, clients, alpha=alpha, seed=seed)[:1]
        ]
    )
    shares = counts.ravel() / 400
    variance = (clients - 1) / (clients**2 * (clients * alpha + 1))
    assert abs(shares.mean() - 0.25) < 5 * np.sqrt(variance / shares.size)
    assert shares.var() == pytest.approx(variance, rel=0.15)
    parts = partition.dirichlet(LABELS, 10, alpha=0.3, min_examples=30, seed=0)
    assert min(len(part) for part in parts) >= 30


def test_impossible_partition_settings_are_refused() -> None:
    dirichlet = partition.dirichlet
    wrong: list[tuple[Callable[..., Any], int, dict[str, float], str]] = [
        (dirichlet, 50, {"alpha": 1.0, "min_examples": 21}, "num_clients must be betw"),
        (
            *(dirichlet, 50, {"alpha": 0.01, "min_examples": 19}),
            "dirichlet_alpha=0.01 .* fewer than 19 examples.*--num_clients",
        ),
    ]
    for divide, clients, settings, message in wrong:
        with pytest.raises(ValueError, match=message):
            divide(LABELS, clients, **settings, seed=0)
    with pytest.raises(ValueError, match="class_share must be greater than 0"):
        partition.PartitionSettings(class_share=0.0)


def test_by_writer_gives_all_of_one_writer_to_a_client() -> None:
    parts = dealt("by_writer", 12, 0)
    owners = [WRITERS[part[0]] for part in parts]
    assert len(set(owners)) == 12
    for part, owner in zip(parts, owners, strict=True):
        np.testing.assert_array_equal(part, np.flatnonzero(owner == WRITERS))


def test_by_writer_leaves_small_writers_out() -> None:
    writers = np.repeat(np.arange(4, dtype=np.int32), [2, 9, 3, 8])
    parts = partition.by_writer(writers, 2, min_examples=8, seed=0)
    assert sorted(len(part) for part in parts) == [8, 9]
    with pytest.raises(ValueError, match=r"1 and 2, .* at least 8 examples; got 3"):
        partition.by_writer(writers, 3, min_examples=8, seed=0)


def test_rows_are_sorted_by_owner_beyond_16_bits() -> None:
    owners = np.array([70_000, 3, 4_464, 70_000, 3, 2**31 - 1, 4_464], np.int32)
    parts = partition.rows_by_owner(owners)  # 70,000 = 4,464 modulo 2^16
    assert [rows.tolist() for rows in parts] == [[1, 4], [2, 6], [0, 3], [5]]
