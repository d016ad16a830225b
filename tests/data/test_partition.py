"""The laws of each partition and of the split into training and validation."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvp_jax.data import attributes, partition
from fedsvp_jax.structs import Split

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
DISJOINT = [name for name in PARTITIONS if name != "paper"]


def split_of(parts: Parts, *, seed: int = 0, **changes: Any) -> Split:
    settings: dict[str, Any] = {"private_attribute": 0, "num_hbc": 0}
    return partition.make_split(
        parts, ATTRIBUTES.ids, seed=seed, **(settings | changes)
    )


def held(rows: jax.Array, counts: jax.Array) -> Parts:
    """Each client's indices without the padding."""
    return [
        np.asarray(row)[:count]
        for row, count in zip(np.asarray(rows), np.asarray(counts), strict=True)
    ]


@pytest.mark.parametrize("name", list(PARTITIONS))
def test_a_seed_reproduces_and_another_differs(name: str) -> None:
    first, again, other = (PARTITIONS[name](20, seed) for seed in (3, 3, 4))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(
        a.shape != b.shape or (a != b).any() for a, b in zip(first, other, strict=True)
    )


@pytest.mark.parametrize("name", list(PARTITIONS))
def test_every_client_holds_valid_indices_once(name: str) -> None:
    parts = PARTITIONS[name](20, 0)
    assert len(parts) == 20
    for indices in parts:
        assert len(indices) == len(np.unique(indices)) > 0
        assert indices.min() >= 0
        assert indices.max() < len(LABELS)


@pytest.mark.parametrize("name", DISJOINT)
def test_no_example_has_two_owners(name: str) -> None:
    joined = np.concatenate(PARTITIONS[name](20, 0))
    assert len(joined) == len(np.unique(joined))


@pytest.mark.parametrize("name", ["iid", "shards", "dirichlet"])
def test_every_example_has_an_owner(name: str) -> None:
    joined = np.concatenate(PARTITIONS[name](20, 0))
    np.testing.assert_array_equal(np.sort(joined), np.arange(len(LABELS)))


@pytest.mark.parametrize("name", list(PARTITIONS))
@pytest.mark.parametrize("clients", [0, -1])
def test_no_clients_are_refused(name: str, clients: int) -> None:
    with pytest.raises(ValueError, match=f"num_clients.*got {clients}"):
        PARTITIONS[name](clients, 0)


@pytest.mark.parametrize("name", DISJOINT)
def test_more_clients_than_data_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="num_clients must be between"):
        PARTITIONS[name](1001, 0)


@pytest.mark.parametrize("name", list(PARTITIONS))
def test_a_negative_seed_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="seed must be >= 0, got -1"):
        PARTITIONS[name](20, -1)


def test_iid_sizes_differ_by_one_at_most() -> None:
    sizes = [len(part) for part in partition.iid(1003, 20, seed=0)]
    assert set(sizes) == {50, 51}


def test_paper_clients_hold_the_share_of_every_class() -> None:
    for indices in partition.paper(LABELS, 20, share=0.07, seed=0):
        np.testing.assert_array_equal(np.bincount(LABELS[indices]), [7] * 10)


def test_paper_clients_of_cifar10_train_on_two_thousand() -> None:
    """METHODS.md, sec. 2 and 3: |D_i| = 2000 of 50,000 at 5%, 80% for training."""
    labels = np.repeat(np.arange(10, dtype=np.int32), 5000)
    ids = attributes.class_private(labels, 5, num_classes=10).ids
    split = partition.make_split(
        partition.paper(labels, 100, seed=0),
        ids,
        private_attribute=0,
        num_hbc=10,
        seed=0,
    )
    np.testing.assert_array_equal(split.num_train, [2000] * 90 + [1800] * 10)
    np.testing.assert_array_equal(split.num_validation, [500] * 90 + [450] * 10)


def test_paper_clients_overlap_as_independent_draws_do() -> None:
    """Two draws of s·n from n share s²·n in the mean (hypergeometric law)."""
    parts = partition.paper(LABELS, 200, share=0.1, seed=0)
    drawn = np.zeros((200, len(LABELS)))
    for client, indices in enumerate(parts):
        drawn[client, indices] = 1
    shared = (drawn @ drawn.T)[np.triu_indices(200, 1)]
    # A class of 100, 10 drawn twice: mean 1, variance 9 · .9 · 10 / 99 = .818.
    assert abs(shared.mean() - 10) < 5 * np.sqrt(10 * 0.818 / len(shared))


def test_paper_draws_do_not_depend_on_the_number_of_clients() -> None:
    few, many = (partition.paper(LABELS, n, seed=2) for n in (3, 9))
    for a, b in zip(few, many[:3], strict=True):
        np.testing.assert_array_equal(a, b)


def test_paper_share_gives_at_least_one_example_a_class() -> None:
    (indices,) = partition.paper(LABELS, 1, share=0.001, seed=0)
    np.testing.assert_array_equal(np.bincount(LABELS[indices]), [1] * 10)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan")])
def test_an_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(
        ValueError, match="class_share must be greater than 0 and at most 1"
    ):
        partition.paper(LABELS, 2, share=share, seed=0)


def test_shards_hold_few_classes() -> None:
    for indices in partition.shards(LABELS, 50, shards_per_client=2, seed=0):
        assert len(indices) == 20
        assert len(np.unique(LABELS[indices])) <= 2


@pytest.mark.parametrize(("alpha", "skewed"), [(0.05, True), (1000.0, False)])
def test_dirichlet_alpha_sets_the_skew(alpha: float, skewed: bool) -> None:
    parts = partition.dirichlet(LABELS, 10, alpha=alpha, seed=0)
    largest = [np.bincount(LABELS[part]).max() / len(part) for part in parts]
    assert (np.mean(largest) > 0.5) == skewed


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


def test_dirichlet_grants_the_minimum() -> None:
    parts = partition.dirichlet(LABELS, 10, alpha=0.3, min_examples=30, seed=0)
    assert min(len(part) for part in parts) >= 30


def test_dirichlet_says_when_the_minimum_is_out_of_reach() -> None:
    with pytest.raises(
        ValueError,
        match=r"dirichlet_alpha=0.01 .* fewer than 19 examples.*--num_clients",
    ):
        partition.dirichlet(LABELS, 50, alpha=0.01, min_examples=19, seed=0)
    with pytest.raises(ValueError, match="num_clients must be between"):
        partition.dirichlet(LABELS, 50, alpha=1.0, min_examples=21, seed=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: partition.dirichlet(LABELS, 2, alpha=0.0, seed=0), "alpha"),
        (
            lambda: partition.dirichlet(LABELS, 2, alpha=1.0, min_examples=0, seed=0),
            "min_examples",
        ),
        (
            lambda: partition.shards(LABELS, 2, shards_per_client=0, seed=0),
            "shards_per_client",
        ),
    ],
)
def test_impossible_partition_settings_are_refused(
    call: Callable[[], Parts], message: str
) -> None:
    with pytest.raises(ValueError, match=f"{message} must be"):
        call()


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


@pytest.mark.parametrize("name", list(PARTITIONS))
def test_training_and_validation_divide_the_client_s_data(name: str) -> None:
    parts = PARTITIONS[name](20, 0)
    split = split_of(parts)
    pairs = zip(
        parts,
        held(split.train, split.num_train),
        held(split.validation, split.num_validation),
        strict=True,
    )
    for indices, train, validation in pairs:
        both = np.concatenate([train, validation])
        np.testing.assert_array_equal(np.sort(both), np.sort(indices))


@pytest.mark.parametrize("name", ["iid", "paper"])
def test_both_parts_hold_every_attribute_in_its_share(name: str) -> None:
    split = split_of(PARTITIONS[name](5, 0))
    for train, validation in zip(
        held(split.train, split.num_train),
        held(split.validation, split.num_validation),
        strict=True,
    ):
        trained, tested = (np.bincount(ATTRIBUTES.ids[p]) for p in (train, validation))
        assert trained.min() > 0
        assert tested.min() > 0
        assert (np.abs(trained - 0.8 * (trained + tested)) <= 1).all()


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    fraction=st.floats(0.05, 0.95),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=200, deadline=None)
def test_every_attribute_held_twice_is_in_both_parts(
    sizes: list[int], fraction: float, seed: int
) -> None:
    ids = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    if len(ids) < 2 or max(sizes) == 1:
        return
    split = partition.make_split(
        [np.arange(len(ids))],
        ids,
        private_attribute=0,
        num_hbc=0,
        train_fraction=fraction,
        seed=seed,
    )
    trained, tested = (
        np.bincount(ids[held(rows, counts)[0]], minlength=len(sizes))
        for rows, counts in (
            (split.train, split.num_train),
            (split.validation, split.num_validation),
        )
    )
    twice = np.array(sizes) >= 2
    assert (trained[twice] > 0).all()
    assert (tested[twice] > 0).all()
    target = round(fraction * len(ids))
    assert abs(int(split.num_train[0]) - target) <= len(sizes)
    if (fraction * np.array(sizes) >= 1).all() and (
        (1 - fraction) * np.array(sizes) >= 1
    ).all():
        assert int(split.num_train[0]) == target


def test_honest_but_curious_clients_hold_no_private_data() -> None:
    parts = partition.paper(LABELS, 20, share=0.2, seed=0)
    split = split_of(parts, num_hbc=4)
    curious = partition.hbc_clients(20, 4)
    np.testing.assert_array_equal(curious, [16, 17, 18, 19])
    for client, (train, validation) in enumerate(
        zip(
            held(split.train, split.num_train),
            held(split.validation, split.num_validation),
            strict=True,
        )
    ):
        both = np.concatenate([train, validation])
        private = (ATTRIBUTES.ids[both] == ATTRIBUTES.private).sum()
        assert private == (0 if client in curious else 20)
        assert len(both) == (180 if client in curious else 200)


def test_honest_clients_do_not_notice_the_curious_ones() -> None:
    parts = PARTITIONS["iid"](10, 0)
    alone, watched = split_of(parts), split_of(parts, num_hbc=3)
    for a, b in zip(
        held(alone.train, alone.num_train)[:7],
        held(watched.train, watched.num_train)[:7],
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_a_split_follows_its_seed() -> None:
    parts = PARTITIONS["iid"](10, 0)
    first, again, other = (split_of(parts, seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.train, again.train)
    np.testing.assert_array_equal(first.validation, again.validation)
    assert (first.train != other.train).any()


def test_training_examples_are_not_in_attribute_order() -> None:
    split = split_of(partition.paper(LABELS, 1, share=1.0, seed=0))
    ids = ATTRIBUTES.ids[held(split.train, split.num_train)[0]]
    assert (np.diff(ids) != 0).sum() > 50


def test_rows_are_int32_padded_with_zero() -> None:
    split = split_of(PARTITIONS["dirichlet"](10, 0))
    counts = np.asarray(split.num_train)
    assert split.train.dtype == split.num_train.dtype == np.int32
    assert split.train.shape == (10, counts.max())
    padding = np.arange(counts.max()) >= counts[:, None]
    assert (np.asarray(split.train)[padding] == 0).all()
    assert padding.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_fraction": 0.0}, "train_fraction must be between 0 and 1, got 0.0"),
        ({"train_fraction": 1.0}, "train_fraction"),
        (
            {"num_hbc": 11},
            "num_hbc_clients must be between 0 and num_clients = 10, got 11",
        ),
        ({"num_hbc": -1}, "num_hbc"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
    ],
)
def test_impossible_split_settings_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        split_of(PARTITIONS["iid"](10, 0), **changes)


def test_a_client_left_without_data_is_named() -> None:
    private = np.flatnonzero(LABELS == 5)
    other = np.flatnonzero(LABELS == 1)
    with pytest.raises(ValueError, match=r"client 1 holds 0 examples \(private"):
        split_of([other, private], num_hbc=1)
    with pytest.raises(ValueError, match="client 0 holds 1 examples"):
        split_of([other[:1], private])


def test_stacked_splits_keep_every_seed_s_rows() -> None:
    splits = [
        split_of(PARTITIONS["dirichlet"](10, seed), seed=seed) for seed in (0, 1, 2)
    ]
    stacked = partition.stack_splits(splits)
    longest = max(split.train.shape[1] for split in splits)
    assert stacked.train.shape == (3, 10, longest)
    assert stacked.num_validation.shape == (3, 10)
    for i, split in enumerate(splits):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], stacked)
        for rows, counts, kept_rows, kept_counts in (
            (split.train, split.num_train, one.train, one.num_train),
            (
                split.validation,
                split.num_validation,
                one.validation,
                one.num_validation,
            ),
        ):
            np.testing.assert_array_equal(counts, kept_counts)
            np.testing.assert_array_equal(kept_rows[:, : rows.shape[1]], rows)
            assert (kept_rows[:, rows.shape[1] :] == 0).all()


def test_splits_of_different_federations_cannot_be_stacked() -> None:
    splits = [split_of(PARTITIONS["iid"](clients, 0)) for clients in (4, 5)]
    with pytest.raises(ValueError, match=r"same number of clients, got \[4, 5\]"):
        partition.stack_splits(splits)
    with pytest.raises(ValueError, match=r"got \[\]"):
        partition.stack_splits([])
