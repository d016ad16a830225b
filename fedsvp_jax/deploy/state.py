"""A client's state: what it has spent, in one small file that survives restarts.

The file is written before an upload leaves (write-ahead). A client that is killed in
between has counted an upload that nobody saw; the other way round never happens.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedsvp_jax.accounting import Ledger, promises
from fedsvp_jax.deploy.policy import Policy
from fedsvp_jax.deploy.refusal import Refused
from fedsvp_jax.run.folder import replace_file

_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class ClientState:
    """What a client remembers from upload to upload.

    Attributes:
      settings: of the policy that it was started with.
      last_round: the last round that it answered, from 1; 0 before the first.
      spent: of `Allowance.budget`.
      seeded: whether any upload's noise was seeded, and so was none.
      memory: the mechanism's scalars of this client.
      ledger: `Ledger.state_dict` of this one client.
    """

    settings: dict[str, Any]
    last_round: int
    spent: int
    seeded: bool
    memory: dict[str, float]
    ledger: dict[str, np.ndarray]

    def read_ledger(self, policy: Policy) -> Ledger:
        """A ledger of its own, which may be added to."""
        mechanism = policy.mechanism
        return Ledger.from_state_dict(
            self.ledger,
            proved=mechanism.claim.proved and not self.seeded,
            subsampling=mechanism.subsampling,
        )

    def epsilon_spent(self, policy: Policy) -> dict[str, float]:
        """The ε of all uploads so far by each accounting, at the promise's δ."""
        return promises.epsilon_spent(
            self.read_ledger(policy),
            policy.promise.target_delta,
            central=False,
            last=False,
        )


def new_state(policy: Policy) -> ClientState:
    """Of a client that has not uploaded yet."""
    memory = policy.mechanism.init(1).of(0).clients
    return ClientState(
        settings=policy.settings(),
        last_round=0,
        spent=0,
        seeded=False,
        memory={name: float(value) for name, value in memory.items()},
        ledger=policy.new_ledger().state_dict(),
    )


def to_bytes(state: ClientState) -> bytes:
    """JSON with a checksum of its content."""
    content = dataclasses.asdict(state)
    content["ledger"] = {
        name: np.asarray(values).tolist() for name, values in state.ledger.items()
    }
    text = json.dumps(content, sort_keys=True)
    whole = {"format": _FORMAT, "sha256": _sum(text), "state": json.loads(text)}
    return (json.dumps(whole, sort_keys=True, indent=1) + "\n").encode()


def from_bytes(content: bytes, policy: Policy, file: str) -> ClientState:
    """The state that `to_bytes` was given.

    Raises:
      Refused: it is damaged, of another version, or of other settings.
    """
    try:
        whole = json.loads(content)
        saved = whole["state"]
        intact = whole["sha256"] == _sum(json.dumps(saved, sort_keys=True))
    except (ValueError, KeyError, TypeError):
        intact = False
    if not intact:
        raise Refused(
            f"the client's state file {file} is damaged: nothing is uploaded before an "
            "intact copy of it is back; a new one would forget what was spent"
        )
    if whole["format"] != _FORMAT:
        raise Refused(
            f"the client's state file {file} is of format {whole['format']}, and this "
            f"version reads {_FORMAT}"
        )
    settings = policy.settings()
    old = saved["settings"]
    changed = [
        key for key in sorted({*old, *settings}) if old.get(key) != settings.get(key)
    ]
    if changed:
        raise Refused(
            "the client promised other settings when its state file was started: "
            + ", ".join(
                f"{key} is {settings.get(key)} and was {old.get(key)}"
                for key in changed
            )
        )
    ledger = {key: np.asarray(values) for key, values in saved.pop("ledger").items()}
    return ClientState(**saved, ledger=ledger)


class StateFile:
    """The file of one client's state.

    Args:
      path: beside it lie PATH.lock and, while it is written, PATH.tmp.
      policy: what the client agreed to.
    """

    def __init__(self, path: str | os.PathLike[str], policy: Policy) -> None:
        self.path = pathlib.Path(path)
        self.policy = policy

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes of the same client waiting until the block ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path.with_name(self.path.name + ".lock"), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> ClientState:
        """What was written last; a new state where there is no file.

        Raises:
          Refused: as `from_bytes`.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return new_state(self.policy)
        return from_bytes(content, self.policy, self.path.name)

    def write(self, state: ClientState) -> None:
        """Returns when the state is on the disk, whole; else nothing was changed.

        Raises:
          OSError: it cannot be written, so nothing may be uploaded.
        """
        replace_file(self.path, to_bytes(state))
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
