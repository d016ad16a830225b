"""The laws of the division of every client's examples into training and validation."""

import re
from collections.abc import Iterator
from typing import Any

import chex
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvp_jax.core.structs import Split
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import attributes, partition
from fedsvp_jax.data.train_validation import Division, dealt, stack_splits

LABELS = np.tile(np.arange(10, dtype=np.int32), 100)
ATTRIBUTES = attributes.class_private(LABELS, 5, num_classes=10)


def split_of(
    parts: list[np.ndarray],
    ids: np.ndarray = ATTRIBUTES.ids,
    *,
    num_hbc: int = 0,
    **how: Any,
) -> Split:
    curious = partition.hbc_clients(len(parts), num_hbc).tolist()
    named = {"private": 0, "curious": curious, "seed": 0}
    named |= {"train_fraction": 0.8, "how": "stratified"} | how
    return Division(**named).split(parts, ids)


def held(split: Split) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each client's rows for training and for validation, without the padding."""
    fields = (split.train, split.num_train, split.validation, split.num_validation)
    return [
        (train[:num_train], validation[:num_validation])
        for train, num_train, validation, num_validation in zip(
            *map(np.asarray, fields), strict=True
        )
    ]


@given(
    sizes=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1),
    fraction=st.floats(0.05, 0.95) | st.just(1.0),
    how=st.sampled_from(["stratified", "by_position"]),
)
@settings(max_examples=100, deadline=None)
def test_the_counts_of_all_clients_are_those_of_each(
    sizes: list[list[int]], fraction: float, how: str
) -> None:
    """A store of a million clients took 109 seconds to ask one after another."""
    division = Division(1, {0}, 0, fraction, how)
    rng = np.random.default_rng(0)
    ids = [rng.permutation(np.repeat(np.arange(3), row)) for row in sizes]
    try:
        divided = [division.of_client(client, own) for client, own in enumerate(ids)]
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            division.counts(np.asarray(sizes), ids.__getitem__)
        return
    for side, counts in enumerate(division.counts(np.asarray(sizes), ids.__getitem__)):
        expected = [
            np.bincount(own[rows[side]], minlength=3)
            for own, rows in zip(ids, divided, strict=True)
        ]
        np.testing.assert_array_equal(counts, expected)


def test_paper_clients_of_cifar10_train_on_two_thousand() -> None:
    """METHODS.md, sec. 2 and 3: |D_i| = 2000 of 50,000 at 5%, 80% for training."""
    labels = np.repeat(np.arange(10, dtype=np.int32), 5000)
    ids = attributes.class_private(labels, 5, num_classes=10).ids
    split = split_of(partition.paper(labels, 100, seed=0), ids, num_hbc=10)
    np.testing.assert_array_equal(split.num_train, [2000] * 90 + [1800] * 10)
    np.testing.assert_array_equal(split.num_validation, [500] * 90 + [450] * 10)


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
    if len(ids) < 2:
        return
    parts = Division(0, (), seed, fraction, "stratified").of_client(0, ids)
    trained, tested = (np.bincount(ids[p], minlength=len(sizes)) for p in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(ids)))
    assert (np.abs(trained - fraction * np.array(sizes)) <= 1).all()
    assert min(map(len, parts)) > 0  # a writer of 14 classes was refused
    twice = np.array(sizes) >= 2
    assert (trained[twice] > 0).all()
    assert (tested[twice] > 0).all()
    target = round(fraction * len(ids))
    assert abs(len(parts[0]) - target) <= len(sizes)
    if (fraction * np.array(sizes) >= 1).all() and (
        (1 - fraction) * np.array(sizes) >= 1
    ).all():
        assert len(parts[0]) == target


@pytest.mark.parametrize("how", ["stratified", "by_position"])
def test_honest_but_curious_clients_hold_no_private_data(how: str) -> None:
    parts = partition.paper(LABELS, 20, share=0.2, seed=0)
    split = split_of(parts, num_hbc=4, how=how)
    curious = partition.hbc_clients(20, 4)
    np.testing.assert_array_equal(curious, [16, 17, 18, 19])
    for client, sides in enumerate(held(split)):
        both = np.concatenate(sides)
        private = (ATTRIBUTES.ids[both] == ATTRIBUTES.private).sum()
        assert len(both) == len(np.unique(both)) and set(both) <= {*parts[client]}
        assert private == (0 if client in curious else 20)
        assert len(both) == (180 if client in curious else 200)


def neighbouring_splits(how: str, count: int) -> Iterator[tuple[Split, Split, int]]:
    """Random federations before and after one record changed its attribute: which."""
    rng = np.random.default_rng(0)
    for seed in range(count):
        parts = np.array_split(rng.permutation(90), 3)
        ids = rng.integers(0, int(rng.integers(2, 5)), 90).astype(np.int32)
        record = int(rng.integers(90))
        before = split_of(parts, ids, seed=seed, how=how)
        ids[record] = (ids[record] + 1) % (ids.max() + 1)
        yield before, split_of(parts, ids, seed=seed, how=how), record


@pytest.mark.hole
def test_by_position_a_record_s_attribute_moves_no_other_record() -> None:
    for before, after, _ in neighbouring_splits("by_position", 300):
        chex.assert_trees_all_equal(before, after)


@pytest.mark.hole
def test_stratified_a_record_s_attribute_moves_others_and_changes_counts() -> None:
    """Why a guarantee with the stratified split keeps the record's attribute."""
    moved, counted = 0, 0
    for before, after, record in neighbouring_splits("stratified", 1000):
        one, other = (
            {int(row) for train, _ in held(split) for row in train} - {record}
            for split in (before, after)
        )
        moved += one != other
        counted += not np.array_equal(before.num_train, after.num_train)
    assert moved > 250
    assert counted > 5


@given(size=st.integers(2, 60), fraction=st.floats(0.05, 0.95), seed=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_by_position_the_counts_depend_on_the_length_alone(
    size: int, fraction: float, seed: int
) -> None:
    expected = min(max(round(fraction * size), 1), size - 1)
    ids = np.random.default_rng(seed).integers(0, 3, size).astype(np.int32)
    for client in (0, 7):
        division = Division(0, (), seed, fraction, "by_position")
        train, validation = division.of_client(client, ids)
        assert len(train) == expected
        both = np.concatenate([train, validation])
        np.testing.assert_array_equal(np.sort(both), np.arange(size))


@pytest.mark.hole
@pytest.mark.parametrize("how", ["stratified", "by_position"])
def test_with_a_fraction_of_one_all_rows_train_and_one_row_suffices(how: str) -> None:
    """One row per client was kept apart, and nothing read it."""
    ids, parts = np.arange(9, dtype=np.int32) % 3, np.split(np.arange(9), [1, 3])
    division = Division(0, (), 0, 1.0, how)
    for owners in (None, np.arange(9, dtype=np.int32) // 2):
        split = division.split(parts, ids, owners)
        for (train, validation), part in zip(held(split), parts, strict=True):
            np.testing.assert_array_equal(np.sort(train), part)
            assert not len(validation)
        clients, examples = dealt(split.validation, split.num_validation)
        assert len(clients) == len(examples) == 0
    with pytest.raises(ValueError, match=r"client 1 holds 0 .*needs at least 1:"):
        division.split([*parts[:1], parts[0][:0]], ids)


def test_a_client_left_without_data_is_named() -> None:
    private = np.flatnonzero(LABELS == 5)
    other = np.flatnonzero(LABELS == 1)
    with pytest.raises(ValueError, match=r"client 1 holds 0 examples \(private"):
        split_of([other, private], num_hbc=1)
    with pytest.raises(ValueError, match="client 0 holds 1 examples"):
        split_of([other[:1], private])


def test_stacked_splits_keep_every_seed_s_rows() -> None:
    splits = [
        split_of(partition.dirichlet(LABELS, 10, alpha=2.0, seed=seed), seed=seed)
        for seed in (0, 1, 2)
    ]
    stacked = stack_splits(splits)
    longest = max(split.train.shape[1] for split in splits)
    assert stacked.train.shape == (3, 10, longest)
    assert stacked.num_validation.shape == (3, 10)
    for i, split in enumerate(splits):
        one = cell_of(stacked, i)
        chex.assert_trees_all_equal(held(one), held(split))
        assert (one.train[:, split.train.shape[1] :] == 0).all()
