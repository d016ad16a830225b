"""The laws of each partition."""

from collections.abc import Callable

import chex
import numpy as np
import pytest
from partitions import LABELS, PARTITIONS, WRITERS, Parts

from fedsvp_jax.data import partition

DISJOINT = [name for name in PARTITIONS if name != "paper"]


@pytest.mark.parametrize("name", list(PARTITIONS))
def test_a_seed_reproduces_and_another_differs(name: str) -> None:
    first, again, other = (PARTITIONS[name](20, seed) for seed in (3, 3, 4))
    chex.assert_trees_all_equal(first, again)
    assert any(not np.array_equal(*two) for two in zip(first, other, strict=True))


@pytest.mark.parametrize("name", list(PARTITIONS))
def test_every_client_holds_valid_indices_once(name: str) -> None:
    parts = PARTITIONS[name](20, 0)
    assert len(parts) == 20
    for indices in parts:
        assert len(indices) == len(np.unique(indices)) > 0
        assert indices.min() >= 0
        assert indices.max() < len(LABELS)
    joined = np.concatenate(parts)
    if name in DISJOINT:
        assert len(joined) == len(np.unique(joined))
        assert name == "by_writer" or len(joined) == len(LABELS)
    if name == "iid":
        assert {len(part) for part in PARTITIONS[name](7, 0)} == {142, 143}


@pytest.mark.parametrize("name", list(PARTITIONS))
def test_impossible_numbers_of_clients_and_seeds_are_refused(name: str) -> None:
    wrong = [(20, -1, "seed must be >= 0, got -1")]
    if name in DISJOINT:
        wrong += [(n, 0, "num_clients must be between") for n in (0, -1, 1001)]
    for clients, seed, message in wrong:
        with pytest.raises(ValueError, match=message):
            PARTITIONS[name](clients, seed)


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


def test_shards_hold_few_classes() -> None:
    for indices in partition.shards(LABELS, 50, shards_per_client=2, seed=0):
        assert len(indices) == 20
        assert len(np.unique(LABELS[indices])) <= 2


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
    wrong: list[tuple[Callable[..., Parts], int, dict[str, float], str]] = [
        (dirichlet, 50, {"alpha": 1.0, "min_examples": 21}, "num_clients must be betw"),
        (
            *(dirichlet, 50, {"alpha": 0.01, "min_examples": 19}),
            "dirichlet_alpha=0.01 .* fewer than 19 examples.*--num_clients",
        ),
        (partition.paper, 2, {"share": 0.0}, "class_share must be greater than 0"),
    ]
    for divide, clients, settings, message in wrong:
        with pytest.raises(ValueError, match=message):
            divide(LABELS, clients, **settings, seed=0)


def test_by_writer_gives_all_of_one_writer_to_a_client() -> None:
    parts = partition.by_writer(WRITERS, 12, seed=0)
    owners = [set(WRITERS[part].tolist()) for part in parts]
    assert all(len(owner) == 1 for owner in owners)
    assert len(set().union(*owners)) == 12
    for part, owner in zip(parts, owners, strict=True):
        assert len(part) == (owner.pop() == WRITERS).sum()


def test_by_writer_leaves_small_writers_out() -> None:
    writers = np.repeat(np.arange(4, dtype=np.int32), [2, 9, 3, 8])
    parts = partition.by_writer(writers, 2, min_examples=8, seed=0)
    assert sorted(len(part) for part in parts) == [8, 9]
    with pytest.raises(ValueError, match=r"1 and 2, .* at least 8 examples; got 3"):
        partition.by_writer(writers, 3, min_examples=8, seed=0)
