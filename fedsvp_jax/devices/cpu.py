"""The properties of a CPU that decide the bits of a run: threads and instructions.

XLA:CPU divides a convolution among the threads of its pool, and the sums of the parts
follow their number; matrix products and sums do not. LLVM compiles for the widest
vectors of the processor, whose lanes are sums of their own.
"""

import os
import pathlib
import platform
import re

# They decide how wide vectors are, whether a product and a sum are rounded once or
# twice, and which unit computes products in bfloat16.
_INSTRUCTIONS = ("avx", "fma", "avx2", "avx512f", "amx_bf16", "asimd", "sve")


def threads() -> int:
    """Threads of XLA:CPU's pool: NPROC if it is set, else the cores given to us."""
    number = os.environ.get("NPROC", "")
    if number.isdecimal() and int(number) > 0:
        return int(number)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def instruction_set() -> str:
    """The architecture, and where the system tells them its vector instructions."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    words = " ".join(re.findall(r"(?im)^(?:flags|features)\s*:(.*)$", text)).split()
    return " ".join([platform.machine(), *(w for w in _INSTRUCTIONS if w in words)])
