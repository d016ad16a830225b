"""Files to damage, and how they are damaged at random."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st
from others_settings import CASES
from stores import digits_store

from fedsvp_jax import check
from fedsvp_jax.data.store.folder import examples_of, open_store

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


class Reader(NamedTuple):
    """A file to damage, and what reads it, alone or as one of its folder."""

    file: Path
    read: Callable[[], Any]


def of_file(
    name: str, content: bytes, reader: Callable[[Path], Any]
) -> Callable[[Path], Reader]:
    def made(folder: Path) -> Reader:
        (folder / name).write_bytes(content)
        return Reader(folder / name, lambda: reader(folder / name))

    return made


def of_store(file: str) -> Callable[[Path], Reader]:
    def read_all(place: Path) -> None:
        store = open_store(place)
        for client in range(len(store.clients)):
            examples_of(store, client)

    def made(folder: Path) -> Reader:
        digits_store(folder / "store", sizes=(5, 7))
        place = folder / "store"
        return Reader(place / file, lambda: read_all(place))

    return made


def of_check(name: str) -> Callable[[Path], Reader]:
    case = CASES[name]
    readers: dict[str, Callable[..., list[check.noise.Noise]]] = {
        "flare": check.flare.read,
        "toml": check.settings_file.read,
    }

    def read(path: Path) -> None:
        for noise in readers[case.engine](path, **case.facts or {}):
            if noise.rate == 1:  # what is sampled may take minutes
                assert not math.isnan(check.noise.epsilon(noise, noise.relation, 1e-5))

    return of_file(case.name, case.text.encode(), read)
