"""A witness: it countersigns the newest entry of each site's log, and forgets none.

A log that was deleted, replaced by an older copy, or gone on with in two places does
not agree with what its witness has seen. It must lie where the accident that is feared
does not happen: on another disk, on another machine, at the server.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import urllib.parse
from typing import NamedTuple

from fedsvp_jax.core.files import AnyPath, make_folder, replace_file

from .chain import Key, verifies
from .refusal import Refused


class Seen(NamedTuple):
    """The newest entry of a site's log that a witness has seen, countersigned."""

    site: str  # public key
    number: int  # entries of the log
    hash: str  # of the newest
    witness: str  # public key
    signature: str = ""

    def message(self, name: str) -> bytes:
        """The bytes that the witness signs."""
        return f"fedsvp\n{name}\n{self.site}\n{self.number}\n{self.hash}".encode()

    def verified(self, name: str) -> bool:
        """Whether its witness signed it."""
        return verifies(self.witness, self.signature, self.message(name))


class Witness:
    """A witness that is a folder: its key, and a file for each site.

    Any object with the methods `public`, `last` and `countersign` is one; a server may
    answer them as its own calls.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = pathlib.Path(os.path.realpath(path))
        self._key = Key(self.path / "witness.key")

    def public(self) -> str:
        """Its public key, which a site writes into its first entry.

        A folder that is new, or of which a kill left an empty key, gets its key.
        """
        make_folder(self.path)
        if not any(path.stat().st_size for path in self.path.iterdir()):
            with contextlib.suppress(FileExistsError):
                self._key.make()
        return self._key.public()

    def last(self, name: str) -> Seen | None:
        """The newest entry that it has seen of the site of this name; None for none.

        Raises:
          Refused: its file is damaged, or not signed by it.
        """
        return read_seen(seen_file(self.path, name), name)

    def countersign(self, name: str, site: str, number: int, digest: str) -> Seen:
        """Remembers the newest entry; returns when it is on its disk.

        Of two calls at once one comes first. The entry that was seen last may be shown
        again, with the same digest: a site may not have got the answer. A name's first
        entry begins its file.

        Raises:
          Refused: the entry does not follow the one that it has seen last, or is
            another in its place; nothing of it is remembered.
          OSError: it cannot be written.
        """
        with self._key.path.open("r+b") as file:  # for NFS, which locks what is written
            fcntl.flock(file, fcntl.LOCK_EX)
            seen = self.last(name)
            if seen and seen[:3] == (site, number, digest):
                return seen
            before = seen.number if seen else 0
            if number != before + 1 or (seen and seen.site != site):
                raise Refused(
                    f"the witness has seen {before} entries of the site {name}, and "
                    f"this entry {number} does not follow: a copy of the log was gone "
                    "on with; put the newest back"
                )
            new = Seen(site, number, digest, self._key.public())
            new = new._replace(signature=self._key.sign(new.message(name)))
            replace_file(
                seen_file(self.path, name),
                f"{json.dumps(new._asdict(), indent=1)}\n".encode(),
                mode=0o600,
            )
        return new


def seen_file(folder: pathlib.Path, name: str) -> pathlib.Path:
    """The file of a site in a witness's folder."""
    return folder / f"{urllib.parse.quote(name, safe='')}.seen.json"


def read_seen(path: pathlib.Path, name: str) -> Seen | None:
    """The entry that a witness's file names for a site; None without a file.

    Raises:
      Refused: it is damaged, or not signed by the witness that it names.
    """
    try:
        seen = Seen(**json.loads(path.read_bytes()))
        right = seen.verified(name)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError):
        right = False
    if not right:
        raise Refused(f"the witness's file {path.name} is damaged or was changed")
    return seen
