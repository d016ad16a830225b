"""From settings and data to arrays: who holds what, and what is refused."""

import dataclasses
from typing import Any

import chex
import numpy as np
import pytest
from small_runs import digits, small

from fedsvp_jax import models
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data.attributes import Attributes
from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.federation import build, federated_data, loading, plan
from fedsvp_jax.models.networks import MLP


def with_people() -> Dataset:
    """Digits with made-up writers and a column."""
    count = len(digits().train_labels)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, count).astype(np.int32)
    return dataclasses.replace(
        digits(),
        train_writers=(np.arange(count) // 40).astype(np.int32),
        columns={"hand": Column(codes, ("left", "right"))},
    )


def test_the_smallest_client_bounds_the_noise() -> None:
    program = build([small()], digits())
    least = int(np.min(program.data.split.num_train))
    assert program.cells.mechanism.min_num_examples == least


def test_one_attribute_is_everything_and_nobody_is_curious() -> None:
    made = federated_data.federate([small(num_attributes=1)], digits())
    assert made.counts.attributes.names == ("everything",)
    assert made.counts.coalition_sizes == {1: int(np.max(made.split.num_train))}


def example_attributes(config: ExperimentConfig, data: Dataset) -> Attributes:
    return loading.attributes_of(config, data, data.train_labels, data.columns)


def test_a_column_is_an_attribute_too() -> None:
    column = small(attributes="column:hand", private_attribute=1)
    found = example_attributes(column, with_people())
    assert found.names == ("left", "right") and found.private == 1
    for changes, message in (
        ({"attributes": "column:foot"}, "has the columns hand"),
        ({"private_attribute": 2}, "private_attribute must be in"),
        ({"num_attributes": 3}, "num_attributes must be 2, the categories"),
    ):
        with pytest.raises(ValueError, match=message):
            settings = {"attributes": "column:hand", "private_attribute": 0} | changes
            example_attributes(small(**settings), with_people())


def test_a_private_column_is_known_of_test_records_where_the_data_set_tells() -> None:
    data = with_people()
    codes = np.arange(len(data.test_labels), dtype=np.int32) % 2
    told = {"hand": Column(codes, ("left", "right"))}
    column = small(attributes="column:hand", private_attribute=1)
    found = loading.test_attributes(
        column, dataclasses.replace(data, test_columns=told)
    )
    np.testing.assert_array_equal(found, codes)
    assert loading.test_attributes(column, data) is None
    found = loading.test_attributes(small(private_attribute=1), data)
    np.testing.assert_array_equal(found, data.test_labels != 1)


def test_a_model_of_images_refuses_features() -> None:
    with pytest.raises(ValueError, match="small_cnn needs images"):
        loading.check_inputs(small(model="small_cnn"), (3,))


def test_a_smaller_test_set_is_spread_over_the_whole_one() -> None:
    whole = digits().test_labels
    kept = loading.load_dataset(small(max_test_examples=100)).test_labels
    assert len(kept) == 100
    np.testing.assert_array_equal(kept, whole[np.arange(100) * len(whole) // 100])
    same = loading.load_dataset(small(max_test_examples=10_000))
    np.testing.assert_array_equal(same.test_labels, whole)


def test_validation_examples_leave_the_test_set_and_no_seed_changes_them() -> None:
    whole = len(digits().test_labels)
    numbered = np.tile(np.arange(whole, dtype=np.float32)[:, None], 3)
    given = {"test_inputs": numbered, "train_inputs": numbered[:1]}
    given["train_labels"] = digits().train_labels[:1]
    dataset: Any = dataclasses.replace(digits(), **given)

    def parts(**changes: Any) -> list[set[float]]:
        kept, chooses = loading.withhold_validation(small(**changes), dataset)
        assert chooses is not None
        return [set(one[:, 0].tolist()) for one in (kept.test_inputs, chooses.inputs)]

    test, validation = parts(validation_examples=40)
    assert len(validation) == 40 and test | validation == set(range(whole))
    assert parts(validation_examples=40, seed=5) == [test, validation]
    recorded = plan.recorded_settings(small(validation_examples=40), digits())
    assert recorded["num_test_examples"] == len(test) == whole - 40
    assert loading.withhold_validation(small(), dataset) == (dataset, None)
    with pytest.raises(ValueError, match=f"validation_examples must be < {whole}"):
        parts(validation_examples=whole)


@pytest.mark.hole
@pytest.mark.parametrize("split", ["stratified", "by_position"])
def test_a_guarantee_says_what_the_split_asks_of_neighbours(split: str) -> None:
    """Stratified, the attribute is kept; by_position a neighbour has another one."""
    config = small(partition="iid", attributes="column:hand", split=split)
    config = dataclasses.replace(config, private_attribute=0, num_hbc_clients=0)
    said = loading.neighbour_assumptions(config)
    assert ("keeps its attribute" in said) == (split == "stratified")
    if split == "by_position":
        dataset = with_people()
        codes = dataset.columns["hand"].codes.copy()
        codes[17] = 1 - codes[17]
        column = Column(codes, ("left", "right"))
        neighbour = dataclasses.replace(dataset, columns={"hand": column})
        splits = [
            federated_data.federate([config], one).split for one in (dataset, neighbour)
        ]
        chex.assert_trees_all_equal(*splits)


@pytest.mark.hole
def test_the_assumptions_name_labels_and_curious_clients_where_they_count() -> None:
    said = loading.neighbour_assumptions
    assert "partition=paper looks at the labels" in said(small(partition="paper"))
    assert "labels" not in said(small(partition="iid"))
    curious = "no record of an honest-but-curious client is replaced by a private one"
    assert curious in said(small(split="by_position", num_hbc_clients=1))
    for changes in ({"num_hbc_clients": 0}, {"num_attributes": 1}):
        assert curious not in said(small(split="by_position", **changes))
    assert "attribute" not in said(small(num_attributes=1))


@pytest.mark.parametrize("outputs", [2, 5])
def test_a_model_needs_one_output_for_each_class(outputs: int) -> None:
    """U6: two outputs for ten classes trained to a low accuracy without a word."""
    model = models.from_linen(MLP(num_classes=outputs, hidden=()))
    with pytest.raises(ValueError, match="model must have 10 outputs"):
        build([small()], digits(), model=model)


def test_a_federation_in_which_nobody_holds_private_data_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """U14."""
    federated_data.federate([small(num_hbc_clients=7)], digits())
    assert "num_hbc_clients = 7 is all clients: nobody holds" in caplog.text
    caplog.clear()
    federated_data.federate([small()], digits())
    assert not caplog.text
