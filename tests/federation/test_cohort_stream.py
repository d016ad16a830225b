"""A streamed run is the run in memory: the same cohorts, files and bits."""

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import (
    SAME_BYTES,
    Stopped,
    contents,
    run_small,
    shared_rounds,  # noqa: F401, a fixture
    shared_trainer,
    small,
    stop_at,
)
from stores import digits_store, in_memory

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.core import prng
from fedsvp_jax.core.tree import params_sha256
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.federation import build, federated_data
from fedsvp_jax.federation.cohort_stream import CohortReader
from fedsvp_jax.round import cohort
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer

CHANGES = {
    "partition": "by_writer",
    "num_clients": 8,
    "client_chunk_size": 2,
    "paired_noise": True,  # a store has a fingerprint of its own, and so other noise
}
FILES = tuple(name for name in SAME_BYTES if name != "config.json")
PROMISE = {
    "mechanism": "nbafl",
    "num_clients": 4,
    "num_hbc_clients": 0,
    "num_rounds": 9,
    "total_epsilon": 1.0,
    "total_accounting": "basic",
    "epsilon": 0.3,
}

pytestmark = pytest.mark.usefixtures("shared_rounds")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ClientStore:
    return digits_store(tmp_path_factory.mktemp("stores") / "digits")


def train(
    folder: pathlib.Path,
    data: Dataset | ClientStore,
    *,
    changes: dict[str, Any] | None = None,
    **how: Any,
) -> dict[str, Any]:
    config = small(**CHANGES | (changes or {}))
    return run_small(config, folder, dataset=data, **how)


@pytest.fixture(scope="module")
def whole(store: ClientStore, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The run with everybody in memory."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder, in_memory(store))
    return folder


@pytest.mark.bits
def test_a_streamed_run_has_the_bytes_of_the_run_in_memory(
    whole: pathlib.Path, store: ClientStore, tmp_path: pathlib.Path
) -> None:
    train(tmp_path / "run", store)
    assert contents(tmp_path / "run", FILES) == contents(whole, FILES)


@pytest.mark.slow
def test_devices_and_portions_of_rounds_change_no_byte_of_a_streamed_run(
    whole: pathlib.Path, store: ClientStore, tmp_path: pathlib.Path
) -> None:
    train(tmp_path / "run", store, rounds_per_call=3, num_devices=2)
    assert contents(tmp_path / "run", FILES) == contents(whole, FILES)


@pytest.mark.bits
def test_a_streamed_run_stopped_midway_resumes_to_the_same_bytes(
    whole: pathlib.Path, store: ClientStore, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 3, "fedsva")
        with pytest.raises(Stopped):
            train(folder, store)
    train(folder, store, resume=True)
    assert contents(folder, FILES) == contents(whole, FILES)


def test_a_promise_ends_a_streamed_run_where_it_ends_the_run_in_memory(
    store: ClientStore, tmp_path: pathlib.Path
) -> None:
    train(tmp_path / "memory", in_memory(store), changes=PROMISE)
    train(tmp_path / "streamed", store, changes=PROMISE)
    assert contents(tmp_path / "streamed", FILES) == contents(
        tmp_path / "memory", FILES
    )
    assert (
        '"stopped_by": "promise"'
        in contents(tmp_path / "memory", FILES)["summary.json"]
    )


def test_every_round_takes_the_one_compiled_program(store: ClientStore) -> None:
    trainer = shared_trainer(
        build([small(**CHANGES)], store), placement=Placement(rounds_per_call=2)
    )
    state, _ = trainer.advance(trainer.initial_state(), 0, 2)
    first = params_sha256(state.params)
    with jax.no_tracing():
        trainer.advance(state, 2, 3)
    again, _ = trainer.advance(trainer.initial_state(), 0, 2)  # back to the start
    assert params_sha256(again.params) == first


def test_a_client_more_takes_a_few_numbers_and_no_examples(tmp_path: pathlib.Path):
    """Of what a round is handed; examples are mapped (tests/data/store/test_folder.py).

    So neither memory nor a round's time grows with the population.
    """
    taken = {}
    for count in (8, 64):
        store = digits_store(tmp_path / str(count), sizes=[20] * count)
        trainer = Trainer(build([small(**CHANGES | {"num_clients": count})], store))
        leaves = jax.tree.leaves(trainer.arguments())
        taken[count] = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    assert taken[64] - taken[8] <= 56 * 16  # bytes; one image has 64


def reader_of(store: ClientStore) -> CohortReader:
    reader = federated_data.federate([small(**CHANGES)], store).reader
    assert reader is not None
    return reader


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("costs", [(1, 1, 1, 1, 1, 1), (1, 1, 1, 2, 2, 3)], ids=str)
@pytest.mark.parametrize(("cohorts", "least"), [("drawn", 1), ("cyclic", 3)])
def test_the_host_draws_as_the_compiled_round_does_under_a_promise(
    first: int, costs: tuple[int, ...], cohorts: str, least: int, store: ClientStore
) -> None:
    """Also where one spent client thins the cohort whose turn it is."""
    spent = np.zeros(8, np.int32)
    kept = Allowance(np.asarray(costs, np.int32), np.asarray(2), np.asarray(least))
    stream = reader_of(store).stream(prng.root_key(0), cohorts, kept)

    @jax.jit  # as the round does
    def drawn(spent: jax.Array, round_num: jax.Array) -> jax.Array:
        root = prng.root_key(0)
        return cohort.cohort_of_round(
            root, kept, spent, round_num, cohort_size=3, cohorts=cohorts
        )

    for round_num in range(6):
        if round_num == first and least > 1:
            spent[0] = 2
        expected = np.asarray(drawn(spent, np.int32(round_num)))
        if round_num >= first:
            taken = stream(round_num, jnp.asarray(spent))
            np.testing.assert_array_equal(taken.clients, expected)
        spent[expected[expected >= 0]] += costs[round_num]
    assert spent.max() == 2


def test_places_without_a_client_hold_nothing(store: ClientStore) -> None:
    reader = reader_of(store)
    found = reader.read(np.asarray([4, -1, -1], np.int32))
    held = reader.clients.client(4)
    count = len(held.labels)
    np.testing.assert_array_equal(found.examples.inputs[:count], held.inputs)
    assert not np.any(found.examples.inputs[count:])
    np.testing.assert_array_equal(found.split.num_train, [held.num_train, 0, 0])
    rows = jax.tree.map(lambda leaf: np.asarray(leaf)[1:], found.split)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(rows))
