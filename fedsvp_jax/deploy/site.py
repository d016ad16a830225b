"""A site's budget: its state in a log that only grows, which a witness countersigns.

A round is charged in the log before the site trains (write-ahead). A client that is
killed in between has counted an upload that nobody saw; the other way round never
happens. The log is begun once, by name: a site that finds none refuses, since a new one
would forget what was spent.

An entry counts as written once the witness has signed this entry's hash. Of two copies
of a log and its key that write at once the witness signs one; the entry of the other is
undone, and nothing leaves.

The newest entry holds all that a round needs of those before it. A new process verifies
the hashes that bind them to it, its signature and its witness's; their own signatures
are for the auditor (`report.ledger`). From then on the log is read again only where its
size or its times say that somebody else wrote.
"""

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import hmac
import json
import logging
import operator
import os
import pathlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from fedsvp_jax.core.files import AnyPath, WriteError, make_folder, sync
from fedsvp_jax.run import plugin

from .chain import BEFORE, Entry, Key, new_entry, read_ends, read_entries
from .noise import SECRET, Randomness
from .policy import Policy, make_policy
from .refusal import Refused
from .state import ClientState, new_state
from .witness import Seen, Witness

LATER = ""  # data that another Site's `read` compares, before the training
_log = logging.getLogger(__name__)


class _Ends(NamedTuple):
    """A verified log, as a round needs it."""

    first: Entry
    last: Entry
    size: int  # bytes up to the end of the last entry
    stamp: tuple[int, ...]  # of the file, which changes whenever it is written


_EMPTY = _Ends(BEFORE, BEFORE, 0, ())


@dataclasses.dataclass
class _Opened:
    """A log that one thread of one process may write."""

    number: int  # the descriptor, which holds the lock
    owner: tuple[int, int]  # process and thread
    ends: _Ends
    seen: Seen | None  # what the witness has countersigned last


class Site:
    """The log of one site, which holds all that it remembers.

    Args:
      path: of the log. Beside it lies PATH.key. A link is followed once, now.
      policy: what the site agrees to; None for what its log says, once there is one.
      witness: a folder that lies elsewhere, or any `Witness`; `witness` beside the log
        by default, which notices that one of both is lost, and no more.
      data: `fingerprint` of the records, or another text that changes with them. A log
        that was begun with other records is not gone on with. Without it the records
        are not compared, and a warning says so, once per process; with `LATER` neither.
      randomness: of its noise: `SECRET`; `Seeded` for tests.
    """

    def __init__(
        self,
        path: AnyPath,
        policy: Policy | None = None,
        *,
        witness: AnyPath | Witness | None = None,
        data: str | None = None,
        randomness: Randomness = SECRET,
    ) -> None:
        self.path = pathlib.Path(os.path.realpath(path))
        self.name = self.path.name  # by which the witness knows the site
        if witness is None:
            witness = self.path.with_name("witness")
        if isinstance(witness, str | os.PathLike):
            witness = Witness(witness)
        self.witness, self._data, self.randomness = witness, data, randomness
        self._open: _Opened | None = None
        self._ends = _EMPTY  # as the log was read or written last
        self._key = Key(self.path.with_name(self.path.name + ".key"))
        if policy is not None:
            self.policy = policy

    @functools.cached_property
    def policy(self) -> Policy:
        """The policy that the site agreed to when its log was begun.

        Raises:
          Refused: as `read`.
        """
        arguments = self._verified()[0].first.body["policy"]
        return policy_of(json.dumps(arguments, sort_keys=True))

    @property
    def public_key(self) -> str:
        """By which an auditor knows the site.

        Raises:
          Refused: the key is missing or damaged.
        """
        return self._key.public()

    def begin(self, num_examples: int) -> None:
        """Begins the log, once in a site's life.

        Args:
          num_examples: as in `new_state`.

        Raises:
          FileExistsError: a log or a key is there, or the witness knows the site; what
            to delete where a beginning may have been killed.
          ValueError: as `new_state`.
          OSError, Refused: log or witness cannot be written; neither log nor key is
            there, unless the witness has seen the site.
        """
        state = new_state(self.policy, num_examples)
        paths, seen = (self.path, self._key.path), self.witness.last(self.name)
        present = [*map(os.fspath, filter(os.path.lexists, paths))]
        if seen is not None or present:
            text = (
                f"its log, its key or its witness knows the site {self.name}: it has "
                "begun already, and a new log would forget what was spent (a witness "
                "knows a site by its log's name: another site needs another one)"
            )
            unspent = not self.path.exists() or self.path.read_bytes().count(b"\n") < 2
            if seen is None and unspent:
                text += (
                    "; only if it has never answered a round, as after an init that "
                    f"was killed, delete {' and '.join(present)} and begin again"
                )
            raise FileExistsError(text)
        make_folder(self.path.parent)
        # Asked first: where it fails, the site has no key yet.
        witness = self.witness.public()
        self._key.make()
        body = {
            "site": self.public_key,
            "name": self.name,
            "witness": witness,
            "data": self._bound_fingerprint(),
            "policy": self.policy.asked,
            "settings": self.policy.settings(),
            "promise": self.policy.says(),
            "agreement": self.policy.agreement,
            "schema": self.policy.schema,
            "state": vars(state),
        }
        if self._data is None:
            _warn_unbound()
        how = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW
        number = os.open(self.path, how, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
            sync(self.path.parent)  # the names of log and key
            self._append(_Opened(number, _thread(), _EMPTY, None), "begin", body)
        except BaseException:  # a signal too
            seen = self.witness.last(self.name)
            if seen is None or seen.site != body["site"]:
                self.path.unlink()
                self._key.path.unlink()
            raise
        finally:
            os.close(number)

    def read(self) -> ClientState:
        """The state that was written last, which the witness has seen.

        Raises:
          Refused: the log is missing, damaged, changed, or older or other than what
            the witness has seen; of other settings than the policy's.
          ValueError: the records are not those of the log's beginning. The server is
            not told: it is no refusal.
        """
        return ClientState(**self._verified()[0].last.body["state"])

    @contextlib.contextmanager
    def opened(self) -> Iterator[Self]:
        """This site, to `write`; no other process or thread may until the block ends.

        A block within gets the same.

        Raises:
          Refused, ValueError: as `read`; or another process or thread has opened it.
          OSError: the witness cannot be written.
        """
        if self._open is not None and self._open.owner == _thread():
            yield self
            return
        number = self._descriptor(os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        try:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(
                    "another process or thread answers for this client: it has "
                    f"{self.path.name} open"
                ) from None
            ends, seen = self._verified(number)
            if os.fstat(number).st_size > ends.size:
                os.ftruncate(number, ends.size)
            opened = _Opened(number, _thread(), ends, seen)
            self._show_witness(opened)
            if None in (self._data, ends.first.body["data"]):
                _warn_unbound()
            self._open = opened
            try:
                yield self
            finally:
                self._open = None
        finally:
            os.close(number)

    @property
    def state(self) -> ClientState:
        """The state in the last entry of the open log."""
        assert self._open is not None
        return ClientState(**self._open.ends.last.body["state"])

    def write(self, kind: str, state: ClientState, facts: Mapping[str, Any]) -> None:
        """Writes an entry of a new state into the open log, with an auditor's facts.

        It returns when the entry is on the disk, and its hash is countersigned.

        Raises:
          OSError: log or witness cannot be written, so nothing may be uploaded. An
            entry that the witness may have seen stays, and counts.
          Refused: the witness has seen another entry in this one's place: a copy of the
            log was gone on with. This entry is undone, and nothing may be uploaded.
        """
        assert self._open is not None
        body = {"state": vars(state), **facts}
        body["witnessed"] = self._show_witness(self._open)
        self._append(self._open, kind, body)

    def _append(self, log: _Opened, kind: str, body: Mapping[str, Any]) -> None:
        """Appends a countersigned entry; one that the witness refuses is undone."""
        before = log.ends
        entry, line = new_entry(self._key, before.last, kind, body)
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(log.number, rest) :]
            os.fsync(log.number)
        except OSError as error:
            os.ftruncate(log.number, before.size)
            raise _unwritten(f"log {self.path}", error) from error
        first = before.first if before.size else entry
        log.ends = _Ends(first, entry, before.size + len(line), _stamp(log.number))
        try:
            self._show_witness(log)
        except Refused:
            os.ftruncate(log.number, before.size)
            log.ends = before  # whose stamp is old, so the log is read again
            raise
        finally:
            self._ends = log.ends

    def _show_witness(self, log: _Opened) -> str:
        """The countersignature of the last entry.

        A kill, or a witness that failed, may have come between the two.

        Raises:
          OSError, Refused: as `write`.
        """
        first, last = log.ends.first.body, log.ends.last
        if log.seen is None or log.seen.hash != last.hash:
            expected = (first["site"], last.number, last.hash, first["witness"])
            try:
                seen = self.witness.countersign(self.name, *expected[:3])
            except OSError as error:
                raise _unwritten("witness", error) from error
            if seen[:4] != expected or not seen.verified(self.name):
                raise Refused(
                    f"the witness has not countersigned entry {last.number} of "
                    f"{self.path.name}: nothing is uploaded"
                )
            log.seen = seen
        return log.seen.signature

    def _verified(self, number: int | None = None) -> tuple[_Ends, Seen]:
        """(the log, what the witness has seen); the log is read where it has changed.

        Args:
          number: a descriptor of the log; by default it is opened.

        Raises:
          Refused, ValueError: as `read`.
        """
        if number is None:
            number = self._descriptor(os.O_RDONLY)
            try:
                return self._verified(number)
            finally:
                os.close(number)
        seen = self.witness.last(self.name)
        stamp = _stamp(number)
        if self._ends.stamp != stamp:
            self._ends = _Ends(*self._read(number, seen), stamp)
        ends = self._ends
        first, last = ends.first.body, ends.last
        if (first["site"], first["name"]) != (self.public_key, self.name):
            raise Refused(
                f"{self.path.name} is the log {first['name']} of another site or key"
            )
        if self._data and first["data"] not in (None, self._bound_fingerprint()):
            raise ValueError(
                f"the records are not those with which {self.path.name} was begun: it "
                "counts what was spent of others"
            )
        if seen is None or (seen.site, seen.witness) != (
            first["site"],
            first["witness"],
        ):
            raise Refused(
                f"the witness does not know the site {self.name}: nothing is uploaded "
                "before the file in which it does is back"
            )
        newest = ((last.number, last.hash), (last.number - 1, last.previous))
        if (seen.number, seen.hash) not in newest:
            raise Refused(
                f"the witness has seen {seen.number} entries of {self.path.name}, and "
                f"not these {last.number}: an older copy of the log or of the witness "
                "was put back, or the log was changed or gone on with in two places; "
                "put the newest copies back"
            )
        if "policy" in self.__dict__:
            _check_settings(first["settings"], self.policy.settings())
        return ends, seen

    def _read(self, descriptor: int, seen: Seen | None) -> tuple[Entry, Entry, int]:
        """(the first entry, the last, bytes up to its end) of the log.

        Raises:
          Refused: something is wrong, and not with a torn entry after the last that
            the witness has seen: that was never reported as written.
        """
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(0)
            content = file.read()
        if ends := read_ends(content):
            return *ends, content.rindex(b"\n") + 1
        entries, problem = read_entries(content, self.path.name)
        lines, number = content.split(b"\n"), len(entries)
        torn = seen and len(lines) - 1 == seen.number + 1 == number + 1
        if problem and not torn:
            raise Refused(
                f"{problem}: nothing is uploaded before an intact copy of the newest "
                "log is back; a new one would forget what was spent"
            )
        return entries[0], entries[-1], sum(len(line) + 1 for line in lines[:number])

    def _descriptor(self, flags: int) -> int:
        """A descriptor of the log.

        Raises:
          Refused: it is missing.
        """
        try:
            return os.open(self.path, flags)
        except FileNotFoundError:
            seen = self.witness.last(self.name)
            raise Refused(
                f"the log {self.path.name} is missing, and its witness has seen "
                f"{seen.number} entries: put the newest copy back"
                if seen
                else f"no log at {self.path}: was fedsvp site join (or init) refused, "
                "or never run?"
            ) from None

    def _bound_fingerprint(self) -> str | None:
        """The fingerprint under the site's key, since a bare hash of records is a test
        of guesses at them.
        """
        if not self._data:
            return None
        return hmac.new(self._key.secret(), self._data.encode(), "sha256").hexdigest()


def fingerprint(*records: AnyPath | np.ndarray) -> str:
    """SHA-256 of files, of folders with all their files, or of arrays.

    It stays on the site's machine: whoever knows all records but one could test a
    guess at that one. The log holds it under the site's key.

    Raises:
      ValueError: a folder holds a link to a folder, whose files would not be read.
    """
    digest = hashlib.sha256()

    def add(name: object, content: bytes) -> None:
        digest.update(f"{name}\n{len(content)}\n".encode() + content)

    for record in records:
        if isinstance(record, np.ndarray):
            add(f"{record.dtype} {record.shape}", record.tobytes())
            continue
        place = pathlib.Path(record)
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_dir() and file.is_symlink():
                raise ValueError(f"{file} is a link to a folder: name that folder too")
            if not file.is_dir():
                add(file.relative_to(place), file.read_bytes())
    return digest.hexdigest()


def _stamp(number: int) -> tuple[int, ...]:
    """What a file's system says of its content: another after every write."""
    return operator.attrgetter(
        "st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"
    )(os.fstat(number))


def _thread() -> tuple[int, int]:
    """The process and the thread that run this."""
    return os.getpid(), threading.get_ident()


@functools.cache
def _warn_unbound() -> None:
    """Warns once in a process's life."""
    _log.warning(
        "records are not compared: a Site without data=fingerprint(RECORDS), or whose "
        "log was begun without, goes on with any; pass it to both, or call read() of a "
        "Site that has it before the training"
    )


def _unwritten(target: str, error: OSError) -> OSError:
    why = error.reason if isinstance(error, WriteError) else error.strerror or error
    return OSError(
        f"the client's {target} cannot be written ({why}): nothing is uploaded"
    )


@functools.lru_cache(maxsize=64)
def policy_of(text: str) -> Policy:
    """The policy of arguments of `make_policy` in JSON; its compiled programs are kept.

    Raises:
      Refused: it has a setting that this version lacks.
    """
    arguments = json.loads(text)
    try:
        config = plugin.config_class()(**arguments.pop("config"))
    except TypeError as error:  # which names the setting
        raise Refused(
            f"the log was begun with a setting that this version of fedsvp_jax lacks "
            f"({error}): go on with the version that began it"
        ) from None
    return make_policy(config, **arguments)


def _check_settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raises Refused: the policy is not that of the log's beginning.

    A setting that one version of the package lacks counts as off.
    """
    changed = [
        f"{name} is {new.get(name)} and was {old.get(name)}"
        # By `solve` the noise was found, which is compared.
        for name in sorted({*old, *new} - {"solve"})
        if (new.get(name) or None) != (old.get(name) or None)
    ]
    if changed:
        raise Refused(
            "the client promised other settings when its log was begun: "
            + ", ".join(changed)
        )
