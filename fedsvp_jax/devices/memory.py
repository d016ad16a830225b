"""Memory of the process that a compiled program leaves behind."""

import ctypes
import sys


def give_back_freed() -> None:
    """Returns to the system what was freed and malloc keeps; only glibc can.

    The compiler frees hundreds of MB, which a program's own arrays would else come on
    top of: they are too large for the pieces that it freed.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
