"""What processes share, seen from one: everything is the identity, devices are dealt.

tests/experiments/test_several_processes.py starts several.
"""

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from fedsvp_jax.devices import processes
from fedsvp_jax.engine.placement import Placement


def test_what_one_process_tells_itself_comes_back_as_it_is() -> None:
    rows = [{"round": 1, "value": 0.1, "nothing": None}]
    assert processes.from_first(lambda: rows) is rows
    tree = {"zero": np.float32([-0.0]), "count": np.int32(3)}
    assert processes.arrays_from_first(tree) is tree
    processes.agree({"seed": 3})


def test_arrays_and_keys_are_placed_and_come_back_whole() -> None:
    mesh = Placement(num_devices=4).mesh()
    tree = {
        "rows": np.arange(8, dtype=np.float32),
        "keys": jax.random.split(jax.random.key(1), 4),
    }
    sharding = NamedSharding(mesh, PartitionSpec("clients"))
    placed = processes.place(tree, sharding)
    assert all(leaf.sharding == sharding for leaf in placed.values())
    np.testing.assert_array_equal(processes.to_host(placed["rows"]), tree["rows"])
    np.testing.assert_array_equal(
        *map(jax.random.key_data, (placed["keys"], tree["keys"]))
    )


def test_more_devices_than_jax_sees_are_refused() -> None:
    assert processes.devices(3) == jax.devices()[:3]
    with pytest.raises(ValueError, match="must be at most 4"):
        processes.devices(5)


def test_only_a_failed_collective_of_several_is_explained_by_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = ValueError("UNKNOWN: Gloo AllGather failed: Connection closed by peer")
    assert processes.explain(gone) is None  # there is but one
    monkeypatch.setattr(processes, "started", lambda: True)
    explained = processes.explain(gone)
    assert explained is not None and "another process stopped" in explained
    assert "--resume" in explained
    assert processes.explain(ValueError("epsilon must be > 0")) is None
