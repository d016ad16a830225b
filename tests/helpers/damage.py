"""Files that are damaged at random."""

import random
from collections.abc import Iterator

from hypothesis import strategies as st

_NEW = (b"", b",", b'"', b"\n", b"\r", b"\0", b"\xff", b"NA", b"1e400", b";", b"[")


def mutated(content: bytes, number: int) -> Iterator[bytes]:
    """The content with a few places changed, left out, doubled or cut off.

    Half of the damage is among the first 200 bytes, where headers are.

    Args:
      content: of a file.
      number: how many damaged ones; the same for every call.
    """
    rng = random.Random(0)
    for _ in range(number):
        whole = bytearray(content)
        for _ in range(rng.randint(1, 6)):
            last = max(len(whole) - 1, 0)
            start = rng.randint(0, min(last, rng.choice([200, last])))
            end = start + rng.choice([0, 1, 1, 1, 1, 1, 5, 10**6])
            some = (
                rng.choice(_NEW),
                bytes(whole[start:end])[:50] * 2,
                rng.randbytes(1),
            )
            whole[start:end] = rng.choice(some)
        yield bytes(whole)


NESTED = b"[" * 100_000  # deeper than a parser of JSON goes

# Places (modulo the length), how much is left out there, and what comes instead.
EDITS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 200), st.integers(0, 2**16)),
        st.one_of(st.integers(0, 4), st.just(10**6)),
        st.one_of(st.sampled_from([*_NEW, b"nested"]), st.binary(max_size=8)),
    ),
    min_size=1,
    max_size=6,
)


def edited(content: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """The content after `EDITS`."""
    for place, gone, new in edits:
        start = place % (len(content) + 1)
        new = NESTED if new == b"nested" else new
        content = content[:start] + new + content[start + gone :]
    return content
