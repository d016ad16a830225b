"""A site's budget: its state in a log that only grows, which a witness countersigns.

A round is charged in the log before the site trains (write-ahead). A client that is
killed in between has counted an upload that nobody saw; the other way round never
happens. The log is begun once, by name: a site that finds none refuses, since a new one
would forget what was spent.

An entry counts as written once the witness has signed this entry's hash. Of two copies
of a log and its key that write at once the witness signs one; the entry of the other is
undone, and nothing leaves.
"""

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import hmac
import json
import logging
import os
import pathlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from fedsvp_jax.core.files import WriteError, make_folder, sync
from fedsvp_jax.deploy.chain import Entry, Key, entry_line, entry_of, read_entries
from fedsvp_jax.deploy.policy import Policy, make_policy
from fedsvp_jax.deploy.refusal import Refused
from fedsvp_jax.deploy.state import ClientState, new_state
from fedsvp_jax.deploy.witness import Seen, Witness, WitnessFolder
from fedsvp_jax.run import plugin

_log = logging.getLogger(__name__)


@dataclasses.dataclass
class _Opened:
    """A log that one thread of one process may write."""

    number: int  # the descriptor, which holds the lock
    owner: tuple[int, int]  # process and thread
    content: bytes
    entries: list[Entry]  # of the content, all verified
    seen: Seen | None  # what the witness has countersigned last


class Site:
    """The log of one site, which holds all that it remembers.

    Args:
      path: of the log. Beside it lies PATH.key. A link is followed once, now.
      policy: what the site agrees to; None for what its log says, once there is one.
      witness: a folder that lies elsewhere, or any `Witness`; `witness` beside the log
        by default, which notices that one of both is lost, and no more.
      name: by which the witness knows the site; the log's by default.
      data: `fingerprint` of the records. A log that was begun with other records is
        not gone on with. Without it the records are not compared, and a warning says
        so, once per process.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        witness: str | os.PathLike[str] | Witness | None = None,
        name: str | None = None,
        data: str | None = None,
    ) -> None:
        self.path = pathlib.Path(os.path.realpath(path))
        if witness is None:
            witness = self.path.with_name("witness")
        if isinstance(witness, str | os.PathLike):
            witness = WitnessFolder(witness)
        self.witness, self.name, self._data = witness, name or self.path.name, data
        self._open: _Opened | None = None
        # The log as it was read or written last, and its entries, all verified.
        self._verified: tuple[bytes, list[Entry]] = b"", []
        self._key = Key(self.path.with_name(self.path.name + ".key"))
        if policy is not None:
            self.policy = policy

    @functools.cached_property
    def policy(self) -> Policy:
        """The policy that the site agreed to when its log was begun.

        Raises:
          Refused: as `read`.
        """
        return _policy_of(json.dumps(self.entries()[0].body["policy"], sort_keys=True))

    def begin(self, num_examples: int) -> None:
        """Begins the log, once in a site's life.

        Args:
          num_examples: as in `new_state`.

        Raises:
          FileExistsError: a log or a key is there, or the witness knows the site.
          ValueError: as `new_state`.
          OSError, Refused: log or witness cannot be written; neither log nor key is
            there, unless the witness has seen the site.
        """
        state = new_state(self.policy, num_examples)
        is_known = self.witness.last(self.name) is not None
        for file in (self.path, self._key.path):
            if is_known or os.path.lexists(file):
                where = "its witness" if is_known else file
                raise FileExistsError(
                    f"{where} knows the site {self.name}: it has begun already, and a "
                    "new log would forget what was spent"
                )
        make_folder(self.path.parent)
        # Asked first: where it fails, the site has no key yet.
        witness = self.witness.public()
        self._key.make()
        body = {
            "site": self._key.public(),
            "name": self.name,
            "witness": witness,
            "data": self._bound_fingerprint(),
            "policy": self.policy.asked,
            "settings": self.policy.settings(),
            "promise": self.policy.says(),
            "state": dataclasses.asdict(state),
        }
        _warn_unless_bound(body, self._data)
        how = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW
        number = os.open(self.path, how, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
            sync(self.path.parent)  # the names of log and key
            self._append(_Opened(number, _thread(), b"", [], None), "begin", body)
        except (OSError, Refused):
            seen = self.witness.last(self.name)
            if seen is None or seen.site != body["site"]:
                self.path.unlink()
                self._key.path.unlink()
            raise
        finally:
            os.close(number)

    def entries(self) -> list[Entry]:
        """All entries, verified; the witness has seen the last.

        Raises:
          Refused: the log is missing, damaged, changed, or older or other than what
            the witness has seen; of other settings than the policy's.
          ValueError: the records are not those of the log's beginning. The server is
            not told: it is no refusal.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            raise self._missing_error() from None
        return self._entries_of(content)[1]

    def read(self) -> ClientState:
        """The state that was written last.

        Raises:
          Refused, ValueError: as `entries`.
        """
        return _state_of(self.entries()[-1])

    def check_data(self) -> None:
        """Checks that the records are those of the log's beginning.

        Raises:
          Refused, ValueError: as `entries`.
        """
        self.entries()

    @contextlib.contextmanager
    def opened(self) -> Iterator[Self]:
        """This site, to `write`; no other process or thread may until the block ends.

        A block within gets the same.

        Raises:
          Refused, ValueError: as `entries`; or another process or thread has opened it.
          OSError: the witness cannot be written.
        """
        if self._open is not None and self._open.owner == _thread():
            yield self
            return
        try:
            number = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise self._missing_error() from None
        try:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(
                    "another process or thread answers for this client: it has "
                    f"{self.path.name} open"
                ) from None
            content = os.pread(number, os.fstat(number).st_size, 0)
            opened = _Opened(number, _thread(), *self._entries_of(content))
            if len(content) > len(opened.content):
                os.ftruncate(number, len(opened.content))
            self._show_witness(opened)
            _warn_unless_bound(opened.entries[0].body, self._data)
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
        return _state_of(self._open.entries[-1])

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
        signature = self._show_witness(self._open)
        body = {"state": dataclasses.asdict(state), **facts, "witnessed": signature}
        self._append(self._open, kind, body)

    def _append(self, log: _Opened, kind: str, body: Mapping[str, Any]) -> None:
        """Appends a countersigned entry; one that the witness refuses is undone."""
        before, entries = log.content, log.entries
        line = entry_line(self._key, entries[-1] if entries else None, kind, body)
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(log.number, rest) :]
            os.fsync(log.number)
        except OSError as error:
            os.ftruncate(log.number, len(before))
            raise _unwritten(f"log {self.path}", error) from error
        log.content = before + line
        log.entries = [*entries, entry_of(line[:-1], len(entries) + 1)]
        try:
            self._show_witness(log)
        except Refused:
            os.ftruncate(log.number, len(before))
            log.content, log.entries = before, entries
            raise
        finally:
            self._verified = log.content, log.entries

    def _show_witness(self, log: _Opened) -> str:
        """The countersignature of the last entry.

        A kill, or a witness that failed, may have come between the two.

        Raises:
          OSError, Refused: as `write`.
        """
        first, last = log.entries[0].body, log.entries[-1]
        if log.seen is None or log.seen.hash != last.hash:
            expected = Seen(first["site"], last.number, last.hash, first["witness"])
            try:
                seen = self.witness.countersign(
                    self.name, expected.site, expected.number, expected.hash
                )
            except OSError as error:
                raise _unwritten("witness", error) from error
            if seen != expected._replace(signature=seen.signature) or not seen.verified(
                self.name
            ):
                raise Refused(
                    f"the witness has not countersigned entry {last.number} of "
                    f"{self.path.name}: nothing is uploaded"
                )
            log.seen = seen
        return log.seen.signature

    def _entries_of(self, content: bytes) -> tuple[bytes, list[Entry], Seen]:
        """(what is intact of a file's content, its `entries`, what the witness saw).

        Of a file that goes on from what was read before, byte by byte, the new entries
        alone are verified; any other is verified whole.
        """
        prefix, before = self._verified
        if not content.startswith(prefix):
            prefix, before = b"", []
        rest = content[len(prefix) :]
        entries, problem = read_entries(rest, self.path.name, before)
        seen = self.witness.last(self.name)
        torn = seen and content.count(b"\n") == seen.number + 1 == len(entries) + 1
        if problem and not torn:  # a last entry that is torn was never reported
            raise Refused(
                f"{problem}: nothing is uploaded before an intact copy of the newest "
                "log is back; a new one would forget what was spent"
            )
        first, last = entries[0].body, entries[-1]
        if first["site"] != self._key.public():
            raise Refused(f"{self.path.name} is another site's: not of this key")
        if first["name"] != self.name:
            raise Refused(f"{self.path.name} is of the site {first['name']}")
        if self._data is not None and first["data"] not in (
            None,
            self._bound_fingerprint(),
        ):
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
        if seen.number > last.number:
            raise Refused(
                f"the log {self.path.name} is older than its witness has seen, which "
                f"is entry {seen.number}, and ends at {last.number}: put the newest "
                "copy back"
            )
        if last.number > seen.number + 1:
            raise Refused(
                f"the witness has seen {seen.number} entries of {last.number}: an "
                "older copy of its file was put back"
            )
        if entries[seen.number - 1].hash != seen.hash:
            raise Refused(
                f"entry {seen.number} of {self.path.name} is not the one that the "
                "witness has seen: the log was gone on with in two places, or changed"
            )
        if "policy" in self.__dict__:
            _check_settings(first["settings"], self.policy.settings())
        intact = rest.splitlines(keepends=True)[: len(entries) - len(before)]
        self._verified = verified = prefix + b"".join(intact), entries
        return *verified, seen

    def _bound_fingerprint(self) -> str | None:
        """The fingerprint under the site's key, since a bare hash of records is a test
        of guesses at them.
        """
        if self._data is None:
            return None
        return hmac.new(self._key.secret(), self._data.encode(), "sha256").hexdigest()

    def _missing_error(self) -> Refused:
        """The error that says why nothing may leave without a log."""
        seen = self.witness.last(self.name)
        if seen is None and not self._key.path.exists():
            return Refused(
                f"this client has no log {self.path.name}: it is begun once, by "
                "Site.begin or fedsvp site init, and never to replace one that was lost"
            )
        trace = "its key is there" if seen is None else f"it had {seen.number} entries"
        return Refused(
            f"the client's log {self.path.name} is missing, and {trace}: nothing is "
            "uploaded before the newest copy is back"
        )


def fingerprint(*records: str | os.PathLike[str] | np.ndarray) -> str:
    """SHA-256 of files, of folders with all their files, or of arrays.

    It stays on the site's machine: whoever knows all records but one could test a
    guess at that one. The log holds it under the site's key.

    Raises:
      ValueError: a folder holds a link to a folder, whose files would not be read.
    """
    digest = hashlib.sha256()

    def add(name: str, content: bytes) -> None:
        digest.update(f"{name}\n{len(content)}\n".encode())
        digest.update(content)

    for record in records:
        if isinstance(record, np.ndarray):
            add(
                f"{record.dtype} {record.shape}", np.ascontiguousarray(record).tobytes()
            )
            continue
        place = pathlib.Path(record)
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        for file in files:
            if file.is_dir() and file.is_symlink():
                raise ValueError(f"{file} is a link to a folder: name that folder too")
            if not file.is_dir():
                add(str(file.relative_to(place)), file.read_bytes())
    return digest.hexdigest()


def _thread() -> tuple[int, int]:
    """The process and the thread that run this."""
    return os.getpid(), threading.get_ident()


def _warn_unless_bound(first: Mapping[str, Any], data: str | None) -> None:
    if data is None or first["data"] is None:
        _warn_once(
            "records are not compared: a Site without data=fingerprint(RECORDS), or "
            "whose log was begun without, goes on with any; pass it to both, or call "
            "check_data() of a Site that has it before the training"
        )


@functools.cache
def _warn_once(sentence: str) -> None:
    """Warns once in a process's life."""
    _log.warning(sentence)


def _unwritten(target: str, error: OSError) -> OSError:
    why = error.reason if isinstance(error, WriteError) else error.strerror or error
    return OSError(
        f"the client's {target} cannot be written ({why}): nothing is uploaded"
    )


def _state_of(entry: Entry) -> ClientState:
    return ClientState(**entry.body["state"])


@functools.lru_cache(maxsize=64)
def _policy_of(text: str) -> Policy:
    """The policy of a log's first entry; its compiled programs are kept.

    Raises:
      Refused: it has a setting that this version lacks.
    """
    arguments = json.loads(text)
    settings, config_class = arguments.pop("config"), plugin.config_class()
    fields = {field.name for field in dataclasses.fields(config_class)}
    if gone := sorted(set(settings) - fields):
        raise Refused(
            f"the log was begun with {', '.join(gone)}, which this version of "
            "fedsvp_jax lacks: go on with the version that began it"
        )
    config = config_class(**settings)
    return make_policy(config, **arguments)


def _check_settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raises Refused: the policy is not that of the log's beginning.

    A setting that one version of the package lacks counts as off.
    """
    both = {*old, *new} - {"solve"}  # by which the noise was found, which is compared
    pairs = {key: (new.get(key), old.get(key)) for key in sorted(both)}
    changed = [
        f"{key} is {now} and was {was}"
        for key, (now, was) in pairs.items()
        if now != was and not (now in (None, False) and was in (None, False))
    ]
    if changed:
        raise Refused(
            "the client promised other settings when its log was begun: "
            + ", ".join(changed)
        )
