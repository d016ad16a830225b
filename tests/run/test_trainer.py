"""The order in which the compiled program of a run is made and run."""

import ctypes
import gc
import pathlib
import sys
import weakref

import pytest
from small_runs import small, small_trainer

from fedsvp_jax.run import trainer as module


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
