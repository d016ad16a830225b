"""A site's log: entries that are linked by their hashes and signed by the site.

An entry is a line of JSON that holds the SHA-256 of the line before it, and an Ed25519
signature (RFC 8032, by the library `cryptography`, the extra `site`). Whoever has the
first entry's public key can verify all of them.
"""

import hashlib
import json
import math
import os
import pathlib
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedsvp_jax.core import extras
from fedsvp_jax.core.files import plain
from fedsvp_jax.deploy.refusal import Refused

FORMAT = 4
START = "0" * 64  # what the first entry has in the place of a hash


class Entry(NamedTuple):
    """One line of a log, verified."""

    number: int  # from 1
    kind: str  # begin, charge or upload
    time: str  # UTC, by the site's clock; nothing is decided by it
    body: dict[str, Any]
    hash: str


class Key:
    """An Ed25519 private key in a file that nobody else may read."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def make(self) -> None:
        """Writes a new key.

        Raises:
          FileExistsError: there is one.
          MissingExtra: `cryptography` is not installed.
        """
        _library()
        number = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(number, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(number)

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
    try:
        key = _library().Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), message)
    except extras.MissingExtra:
        raise
    except Exception:  # a wrong signature, or hexadecimal digits that are none
        return False
    return True


def entry_line(
    key: Key, before: Entry | None, kind: str, body: Mapping[str, Any]
) -> bytes:
    """The line of a new entry; infinity is written as a word, NaN never occurs."""
    content = {
        "body": _plain(body),
        "entry": 1 if before is None else before.number + 1,
        "format": FORMAT,
        "kind": kind,
        "previous": START if before is None else before.hash,
        "salt": secrets.token_hex(16),  # so that a hash tells nothing of what is hashed
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    content["signature"] = key.sign(_canonical(content))
    return _canonical(content) + b"\n"


def entry_of(line: bytes, number: int) -> Entry:
    """The entry of a verified line, without its end."""
    saved = json.loads(line)
    digest = hashlib.sha256(line).hexdigest()
    return Entry(number, saved["kind"], saved["time"], saved["body"], digest)


def read_entries(
    content: bytes, file: str, before: Sequence[Entry] = ()
) -> tuple[list[Entry], str]:
    """The entries of a log up to the first that is not right, and what is wrong there.

    A last line without its end was never reported as written, and is left out. The
    content is what follows the entries `before`, which were verified already and are
    among those that are returned.
    """
    entries = list(before)
    public = entries[0].body["site"] if entries else ""
    for line in content.split(b"\n")[:-1]:
        number = len(entries) + 1
        problem, saved = _problem(line, entries[-1] if entries else None, public)
        if problem:
            return entries, f"entry {number} of {file} {problem}"
        public = public or saved["body"]["site"]
        entries.append(entry_of(line, number))
    return entries, "" if entries else f"{file} holds no entry"


def _problem(line: bytes, before: Entry | None, public: str) -> tuple[str, Any]:
    """(what is wrong with a line, its content)."""
    try:
        saved = json.loads(line)
        if saved["format"] != FORMAT:
            return f"is of format {saved['format']}, this version reads {FORMAT}", saved
        signed = {name: saved[name] for name in saved if name != "signature"}
        signature, key = saved["signature"], public or saved["body"]["site"]
        intact = _canonical(saved) == line
        intact &= {"kind", "time"} < {*saved} and isinstance(saved["body"], dict)
    except (ValueError, KeyError, TypeError, RecursionError):
        intact = False
    if not intact:
        return "is damaged", None
    if not verifies(key, signature, _canonical(signed)):
        return "was changed: its signature is not the site's", saved
    follows = START if before is None else before.hash
    number = 1 if before is None else before.number + 1
    if (saved["previous"], saved["entry"]) != (follows, number):
        return "does not follow the one before it", saved
    if (saved["kind"] == "begin") != (before is None):
        return "begins a second log", saved
    return "", saved


def _canonical(content: Any) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def _plain(value: Any) -> Any:
    """Numpy to plain Python, infinity to a word that `float` reads."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    return plain(value)


def _library() -> Any:
    with extras.needed("site", "a signed log"):
        from cryptography.hazmat.primitives.asymmetric import ed25519
    return ed25519
