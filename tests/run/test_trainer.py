"""The order in which the compiled program of a run is made and run."""

import ctypes
import dataclasses
import gc
import logging
import os
import pathlib
import shutil
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import digits, small, small_trainer

from fedsvp_jax import federation, run
from fedsvp_jax.core.structs import Model
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.run import trainer as module

# Of few numbers, so that a run takes little but what every run does.
TINY = Dataset(
    "tiny",
    np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32),
    np.arange(40, dtype=np.int32) % 2,
    np.ones((4, 3), np.float32),
    np.array([0, 1, 0, 1], np.int32),
    num_classes=2,
)


def linear(scales: list[float]) -> Model:
    """One layer, whose outputs are scaled by the first of a list that may change."""

    def init(key, batch):
        return {"w": jnp.zeros((batch.shape[-1], 2))}, {}

    def apply(params, stats, x, *, train, key):
        return scales[0] * (x @ params["w"]), stats

    return Model(init, apply)


def tiny(**changes):
    few = {"num_clients": 2, "cohort_size": 2, "num_hbc_clients": 0}
    tables = {"dataset": "npz", "num_attributes": 1, "partition": "iid"}
    return small(**{"mechanism": "nbafl", "num_rounds": 1} | few | tables | changes)


def rounds_compiled(log: pytest.LogCaptureFixture) -> int:
    return sum(
        record.message.startswith("Compiling jit(rounds)") for record in log.records
    )


@pytest.mark.hole
def test_runs_of_an_equal_plan_are_compiled_once(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each run was compiled anew, which took 5 seconds of 5.2."""
    config = small(mechanism="none", num_rounds=1, partition="iid")
    hashes = []
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for seed in (0, 1, 0):
            one = dataclasses.replace(config, seed=seed)
            folder = tmp_path / str(len(hashes))
            hashes.append(run.train(one, folder, dataset=digits())["params_sha256"])
    assert rounds_compiled(caplog) == 1
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_run_keeps_its_program_and_nothing_else(tmp_path: pathlib.Path) -> None:
    """Programs, arrays and files of 2,000 runs in one process do not add up."""
    client, model, kept = jax.devices()[0].client, linear([1.0]), []
    for number in range(5):
        run.train(tiny(seed=number), tmp_path / "run", dataset=TINY, model=model)
        shutil.rmtree(tmp_path / "run")
        gc.collect()
        files = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
        kept.append((len(client.live_executables()), len(jax.live_arrays()), files))
    grown = np.diff(kept[1:], axis=0)  # what other tests left may go meanwhile
    assert (grown <= 0).all(), kept
    assert module._jitted.cache_info().hits >= 4
    module._jitted.cache_clear()
    gc.collect()
    assert len(client.live_executables()) < kept[-1][0]


@pytest.mark.hole
@pytest.mark.parametrize(
    "mechanism", ["nbafl", "gaussian", "time_varying", "dp_fedavg"]
)
def test_runs_of_one_model_leave_no_entries_in_the_caches_of_jax(
    mechanism: str, tmp_path: pathlib.Path
) -> None:
    """JAX keeps a call on plain numbers under a new trace; a run left 13 of them.

    It forgets the oldest of 8,192, so memory grew for 650 runs. An entry has a dead
    reference to its trace. Before, `jit` was made anew for every look at the shapes,
    and a run left 117 objects.
    """
    model, dead, objects = linear([1.0]), [], []
    for number in range(6):
        config = tiny(seed=number, mechanism=mechanism, clipping="update_clip")
        run.train(config, tmp_path / "run", dataset=TINY, model=model)
        shutil.rmtree(tmp_path / "run")
        gc.collect()
        objects.append(len(gc.get_objects()))
        references = [each for each in gc.get_objects() if type(each) is weakref.ref]
        dead.append(sum(each() is None for each in references))
    assert dead[-1] <= dead[1], dead
    assert objects[-1] - objects[1] < 20 * 4, objects


def test_of_other_shapes_a_few_programs_are_kept() -> None:
    """One jitted function would keep a program of each shape for ever."""
    model = linear([1.0])
    for rows in (40, 39, 38):
        data = dataclasses.replace(
            TINY,
            train_inputs=TINY.train_inputs[:rows],
            train_labels=np.arange(rows) % 2,
        )
        module.Trainer(federation.build([tiny()], data, model=model))
    assert module._jitted.cache_info().currsize == 3
    assert module._jitted.cache_info().maxsize == 8


def test_memory_of_the_compiler_is_given_back_before_the_first_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = module.Trainer(small_trainer(small()).program)
    state, compiled = trainer.initial_state(), []
    monkeypatch.setattr(
        module, "give_back_freed", lambda: compiled.append(trainer._has_run)
    )
    for round_num in range(2):
        state, _ = trainer.advance(state, round_num, 1)
    assert compiled == [False]


def test_a_trainer_that_nobody_needs_frees_its_data_at_once() -> None:
    trainer = module.Trainer(small_trainer(small()).program)
    left = weakref.ref(trainer), weakref.ref(trainer.cells.root.shared)
    gc.disable()  # a cycle would keep gigabytes until Python looks for it
    try:
        del trainer
        assert [one() for one in left] == [None, None]
    finally:
        gc.enable()


def resident_bytes() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="malloc of another C library",
)
def test_what_malloc_keeps_is_given_back() -> None:
    chunk, library = 4096, ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    pieces = [library.malloc(chunk) for _ in range(10_000)]
    for piece in pieces:
        ctypes.memset(piece, 1, chunk)
    # The last piece holds the end of the heap in place, as a live array would.
    for piece in pieces[:-1]:
        library.free(piece)
    kept = resident_bytes()
    module.give_back_freed()
    assert kept - resident_bytes() > 0.8 * chunk * 10_000
    library.free(pieces[-1])


@pytest.mark.hole
def test_noise_is_drawn_after_the_training_so_that_a_round_holds_no_copy_of_it() -> (
    None
):
    """It held 5.9 copies of the weights beside the model, one of them noise."""
    width = 100_000

    def init(key: jax.Array, batch: jax.Array) -> tuple[dict, dict]:
        return {"first": jnp.ones((3, width)), "last": jnp.zeros((width, 2))}, {}

    def apply(params: dict, stats: dict, batch: jax.Array, **_: object) -> tuple:
        return jnp.tanh(batch @ params["first"]) @ params["last"], stats

    program = federation.build([tiny()], TINY, model=Model(init, apply))
    memory = module.Trainer(program).lower().compile().memory_analysis()
    copies = memory.temp_size_in_bytes / (4 * 5 * width)
    assert copies < 5.5, copies
