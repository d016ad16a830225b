"""Files that are damaged at random."""

from hypothesis import strategies as st

_NEW = (b"", b",", b'"', b"\n", b"\r", b"\0", b"\xff", b"NA", b"1e400", b";", b"[")
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
