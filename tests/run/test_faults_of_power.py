"""Power that goes: what was not synced is lost in any order, what was is there.

A simulated disk knows, of every file and folder, what fsync has put on it. When the
power goes, each later change of a name has happened or not, whatever came before it,
and each page of unsynced content is the old one or the new one.
"""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from saved_work import a_client, a_run, check_client, check_run
from stores import digits_store

from fedsvp_jax.data.store.folder import examples_of, open_store

PAGE = 512
CALLS = ("fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "truncate")


class PowerOff(BaseException):
    """Nothing in the code handles it."""


class Disk:
    """What is on the disk below a folder; the power goes at the last of some calls."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, last: int) -> None:
        self.root, self.left = root, last
        self.open: dict[int, int] = {}  # inode -> descriptor, so that none comes again
        self.synced: dict[int, bytes] = {}  # content of files
        self.seen: dict[tuple[int, str], int] = {}  # (folder, name) -> inode
        self.names: dict[tuple[int, str], int] = {}  # of these, what is on the disk
        self.later: list[dict[tuple[int, str], int | None]] = []  # what is not yet
        self.top = root.stat().st_ino
        for name in CALLS:
            patch.setattr(os, name, self.counted(getattr(os, name), name))

    def counted(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.look()
            self.left -= 1
            if self.left == 0:
                raise PowerOff
            done = real(*arguments, **named)
            self.look()
            if name == "fsync":
                self.sync(arguments[0])
            return done

        return call

    def look(self) -> None:
        """Notes which names have changed since it looked last, as one change."""
        now: dict[tuple[int, str], int] = {}
        for folder, folders, files in os.walk(self.root):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                inode = os.stat(path).st_ino
                now[os.stat(folder).st_ino, name] = inode
                if inode not in self.open:
                    self.open[inode] = os.open(path, os.O_RDONLY)
        changed = {
            place: now.get(place)
            for place in {*now, *self.seen}
            if now.get(place) != self.seen.get(place)
        }
        if changed:
            self.later.append(changed)
        self.seen = now

    def sync(self, number: int) -> None:
        inode = os.fstat(number).st_ino
        if os.path.isfile(f"/proc/self/fd/{number}"):
            self.synced[inode] = self.content(inode)
            return
        for changed in self.later:
            for place in [one for one in changed if one[0] == inode]:
                self.apply(self.names, place, changed.pop(place))

    def content(self, inode: int) -> bytes:
        number = self.open[inode]
        return os.pread(number, os.fstat(number).st_size, 0)

    @staticmethod
    def apply(names: dict, place: tuple[int, str], inode: int | None) -> None:
        names.pop(place, None)
        if inode is not None:
            names[place] = inode

    def after(self, place: Path, rng: random.Random) -> None:
        """Writes what is found when the power is back."""
        names = dict(self.names)
        for changed in self.later:
            if rng.random() < 0.5:
                for where, inode in changed.items():
                    self.apply(names, where, inode)
        self.write(place, self.top, names, rng)
        for number in self.open.values():
            os.close(number)

    def write(self, place: Path, folder: int, names: dict, rng: random.Random) -> None:
        place.mkdir()
        for (inside, name), inode in names.items():
            if inside != folder:
                continue
            if os.path.isdir(f"/proc/self/fd/{self.open[inode]}"):
                self.write(place / name, inode, names, rng)
            else:
                (place / name).write_bytes(self.left_of(inode, rng))

    def left_of(self, inode: int, rng: random.Random) -> bytes:
        old, new = self.synced.get(inode, b""), self.content(inode)
        size = rng.choice([len(old), len(new)])
        old, new = (one[:size].ljust(size, b"\0") for one in (old, new))
        pages = range(0, size, PAGE)
        return b"".join(rng.choice([old, new])[at : at + PAGE] for at in pages)


Work = Callable[[Path], Iterator[int]]  # yields what it reports as saved
Check = Callable[[Path, int], None]  # (folder, the last that was reported)


def a_store(folder: Path) -> Iterator[int]:
    digits_store(folder / "store", sizes=(5, 7))
    yield 1


def check_store(folder: Path, reported: int) -> None:
    if reported == 1:
        store = open_store(folder / "store")
        assert [len(examples_of(store, client)[1]) for client in (0, 1)] == [5, 7]


CASES: dict[str, tuple[Work, Check]] = {
    "run": (a_run, check_run),
    "client": (a_client, check_client),
    "store": (a_store, check_store),
}


@pytest.mark.parametrize("times", [8, pytest.param(167, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_what_was_reported_as_saved_is_there_when_the_power_is_back(
    name: str, times: int, tmp_path: Path
) -> None:
    work, check = CASES[name]
    for number in range(times):
        rng, folder = random.Random(number), tmp_path / str(number)
        folder.mkdir()
        reported = -1
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(folder, patch, rng.randint(1, 60))
            try:
                for saved in work(folder):
                    reported = saved
            except PowerOff:
                pass
        disk.look()
        disk.after(tmp_path / f"{number} after", rng)
        check(tmp_path / f"{number} after", reported)
