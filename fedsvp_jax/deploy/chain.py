"""A site's log: entries that are linked by their hashes and signed by the site.

An entry is a line of JSON that holds the SHA-256 of the line before it, and an Ed25519
signature (RFC 8032, by the library `cryptography`, the extra `site`). Whoever has the
first entry's public key can verify all of them.

The hashes alone bind the lines before an entry to its signature, so a site verifies the
signatures of the first and the last entry, and an auditor every one.
"""

import fcntl
import hashlib
import json
import math
import os
import pathlib
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedsvp_jax.core import extras

from .refusal import Refused

FORMAT = 4


class Entry(NamedTuple):
    """One line of a log, verified."""

    number: int  # from 1
    kind: str  # begin, charge or upload
    time: str  # UTC, by the site's clock; nothing is decided by it
    body: dict[str, Any]
    previous: str  # the hash of the entry before
    hash: str


BEFORE = Entry(0, "", "", {}, "", "0" * 64)  # in the place of one before the first


class Key:
    """An Ed25519 private key in a file that nobody else may read."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def make(self) -> None:
        """Writes a new key, also into an empty file, which a kill may leave.

        Raises:
          FileExistsError: there is one.
          MissingExtra: `cryptography` is not installed.
        """
        _library()
        how = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        with open(os.open(self.path, how, 0o600), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_size:
                raise FileExistsError(f"the key {self.path} is there already")
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())

    def secret(self) -> bytes:
        """The 32 bytes of the private key.

        Raises:
          Refused: the file is missing or damaged.
        """
        try:
            content = bytes.fromhex(self.path.read_text(encoding="ascii"))
        except FileNotFoundError:
            raise Refused(
                f"the key {self.path.name} is missing: nothing is uploaded before it "
                "is back"
            ) from None
        except ValueError:
            content = b""
        if len(content) != 32:
            raise Refused(f"the key {self.path.name} is damaged")
        return content

    def sign(self, message: bytes) -> str:
        """The signature, in hexadecimal digits."""
        return str(self._private().sign(message).hex())

    def public(self) -> str:
        """The public key, which verifies its signatures."""
        return str(self._private().public_key().public_bytes_raw().hex())

    def _private(self) -> Any:
        return _library().Ed25519PrivateKey.from_private_bytes(self.secret())


def verifies(public: str, signature: str, message: bytes) -> bool:
    """Whether the holder of a public key's private one signed the message."""
    key_class = _library().Ed25519PublicKey
    try:
        key = key_class.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), message)
    except Exception:  # a wrong signature, or hexadecimal digits that are none
        return False
    return True


def new_entry(
    key: Key, before: Entry, kind: str, body: Mapping[str, Any]
) -> tuple[Entry, bytes]:
    """A new entry and its line. Infinity is written as a word, and NaN is refused."""
    content: dict[str, Any] = {
        "body": _words(body),
        "entry": before.number + 1,
        "format": FORMAT,
        "kind": kind,
        "previous": before.hash,
        "salt": secrets.token_hex(16),  # so that a hash tells nothing of what is hashed
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    content["signature"] = key.sign(_canonical(content))
    line = _canonical(content)
    return _of(content, line), line + b"\n"


def read_entries(content: bytes, file: str) -> tuple[list[Entry], str]:
    """The entries of a log up to the first that is not right, and what is wrong there.

    A last line without its end was never reported as written, and is left out.
    """
    entries: list[Entry] = []
    public = ""
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        entry = _entry(line, entries[-1] if entries else BEFORE, public)
        if isinstance(entry, str):
            return entries, f"entry {number} of {file} {entry}"
        public = public or entry.body["site"]
        entries.append(entry)
    return entries, "" if entries else f"{file} holds no entry"


def read_ends(content: bytes) -> tuple[Entry, Entry] | None:
    """The first and the last entry of a log, without a last line that has no end.

    None unless every line has the hash of the one before it, and the two the site's
    signature.
    """
    before = digest = BEFORE.hash
    lines = content.split(b"\n")[:-1]
    for line in lines:
        if f'"previous":"{digest}"'.encode() not in line:
            return None
        before, digest = digest, hashlib.sha256(line).hexdigest()
    first = _entry(lines[0], BEFORE, "") if lines else ""
    if isinstance(first, str):
        return None
    if len(lines) == 1:
        return first, first
    second_last = first._replace(number=len(lines) - 1, hash=before)
    last = _entry(lines[-1], second_last, first.body["site"])
    return None if isinstance(last, str) else (first, last)


def _entry(line: bytes, before: Entry, public: str) -> Entry | str:
    """The entry of a line without its end, or what is wrong with the line."""
    try:
        saved = json.loads(line)
        if saved["format"] != FORMAT:
            return f"is of format {saved['format']}, this version reads {FORMAT}"
        content = {name: saved[name] for name in saved if name != "signature"}
        signature, body = saved["signature"], saved["body"]
        key = public or body["site"]
        intact = _canonical(saved) == line
        intact &= {"kind", "time"} < {*saved} and isinstance(body, dict)
    except (ValueError, KeyError, TypeError, RecursionError):
        intact = False
    if not intact:
        return "is damaged" if before.number else "is damaged, or of no site's log"
    if not verifies(key, signature, _canonical(content)):
        return "was changed: its signature is not the site's"
    if (saved["previous"], saved["entry"]) != (before.hash, before.number + 1):
        return "does not follow the one before it"
    if (saved["kind"] == "begin") != (before is BEFORE):
        return "begins a second log"
    return _of(saved, line)


def _of(content: Mapping[str, Any], line: bytes) -> Entry:
    digest = hashlib.sha256(line).hexdigest()
    return Entry(
        content["entry"],
        content["kind"],
        content["time"],
        content["body"],
        content["previous"],
        digest,
    )


def _canonical(content: Any) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def _words(value: Any) -> Any:
    """The value, its infinities as words that `float` reads: JSON has none."""
    if isinstance(value, Mapping):
        return {name: _words(item) for name, item in value.items()}
    if isinstance(value, list):
        return [*map(_words, value)]
    return "inf" if value == math.inf else value


def _library() -> Any:
    with extras.needed("site", "a signed log"):
        from cryptography.hazmat.primitives.asymmetric import ed25519
    return ed25519
