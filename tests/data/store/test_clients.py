"""Clients of a store hold what the partition in memory gives them."""

import dataclasses
from pathlib import Path
from typing import Any

import chex
import numpy as np
import pytest
from small_runs import small
from stores import digits_store, in_memory

from fedsvp_jax.federation import federated_data


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seed": 3, "train_fraction": 0.5},
        {"num_attributes": 4, "num_hbc_clients": 3},
        {"num_attributes": 1, "validation_examples": 40},
        {"split": "by_position", "num_attributes": 4, "num_hbc_clients": 3},
    ],
    ids=str,
)
def test_a_store_gives_every_client_what_memory_gives(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    store = digits_store(tmp_path / "store")
    dataset = in_memory(store)
    config = small(partition="by_writer", num_clients=8, **changes)
    whole = federated_data.federate([config], dataset)
    streamed = federated_data.federate([config], store)
    chex.assert_trees_all_equal(streamed.test, whole.test)
    chex.assert_trees_all_equal(streamed.validation, whole.validation)
    assert (whole.validation is not None) == ("validation_examples" in changes)
    assert streamed.counts.coalition_sizes == whole.counts.coalition_sizes
    assert streamed.min_num_examples == whole.min_num_examples
    assert streamed.counts.attributes.names == whole.counts.attributes.names
    assert streamed.reader is not None
    longest = (whole.split.train.shape[-1], whole.split.validation.shape[-1])
    cohorts = streamed.reader
    assert (cohorts.longest_train, cohorts.longest_validation) == longest
    for number in range(8):
        held = cohorts.clients.client(number)
        split = [np.asarray(leaf[0, number]) for leaf in vars(whole.split).values()]
        train, num_train, validation, num_validation = split
        rows = np.concatenate([train[:num_train], validation[:num_validation]])
        assert held.num_train == num_train
        np.testing.assert_array_equal(held.inputs, dataset.train_inputs[rows])
        np.testing.assert_array_equal(held.labels, dataset.train_labels[rows])
        np.testing.assert_array_equal(
            held.attributes, whole.counts.attributes.ids[rows]
        )


def test_a_client_left_without_data_is_refused_in_the_same_words(
    tmp_path: Path,
) -> None:
    """All examples are of the private class, and a curious client holds no other."""
    store = digits_store(tmp_path / "store", sizes=(30, 30, 30))
    store = dataclasses.replace(store, train_labels=np.zeros(90, np.int32))
    config = small(partition="by_writer", num_clients=3, private_attribute=0)
    messages = []
    for dataset in (store, in_memory(store)):
        with pytest.raises(ValueError, match="client 2 holds 0 examples") as caught:
            federated_data.federate([config], dataset)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partition": "iid"}, "partition must be by_writer for dataset store"),
        ({"attributes": "column:sex"}, "attributes=column:sex.* columns none"),
        ({"num_clients": 11}, "num_clients must be between 1 and 10"),
    ],
    ids=str,
)
def test_what_a_store_does_not_have_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    config = small(**({"dataset": "store", "partition": "by_writer"} | changes))
    with pytest.raises(ValueError, match=message):
        federated_data.federate([config], digits_store(tmp_path / "store"))
