"""Freed memory goes back to the system."""

import ctypes
import pathlib
import sys

import pytest

from fedsvp_jax.devices import memory

CHUNK, COUNT = 4096, 10_000


def resident_bytes() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="malloc of another C library",
)
def test_what_malloc_keeps_is_given_back() -> None:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    pieces = [library.malloc(CHUNK) for _ in range(COUNT)]
    for piece in pieces:
        ctypes.memset(piece, 1, CHUNK)
    # The last piece holds the end of the heap in place, as a live array would.
    for piece in pieces[:-1]:
        library.free(piece)
    kept = resident_bytes()
    memory.give_back_freed()
    assert kept - resident_bytes() > 0.8 * CHUNK * COUNT
    library.free(pieces[-1])
