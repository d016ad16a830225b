"""A client's state: what it has spent, in one small file that survives restarts.

A round is charged in the file before the client trains (write-ahead). A client that is
killed in between has counted an upload that nobody saw; the other way round never
happens. The client begins its file once, by name: a client that finds none refuses,
since a new one would forget what was spent.
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

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import Account
from fedsvp_jax.config import of_today
from fedsvp_jax.deploy.policy import Policy
from fedsvp_jax.deploy.refusal import Refused
from fedsvp_jax.mechanisms import nothing_private
from fedsvp_jax.run.files import WriteError, make_folder, replace_file

_FORMAT = 3
_ROUNDING = 1 + 1e-9  # the promise and the ledger add up in another order
_MOST_TIMES = 1000  # the smallest client, where nobody named the largest


@dataclasses.dataclass(frozen=True)
class ClientState:
    """What a client remembers from upload to upload.

    Attributes:
      settings: of the policy that it was started with.
      num_examples: |D|, or |P| of a private query: what the client declared, before any
        round, as public. The noise and the weight in the average follow it.
      last_round: the last round that was charged, from 1; 0 before the first.
      spent: of `Allowance.budget`.
      seeded: whether any upload's noise was seeded, and so was none.
      memory: the mechanism's scalars of this client.
      sums: `Account.to_json` of this one client, `last_round` among its uploads.
      before: the sums without `last_round`, as long as its upload is not made; then
        None. What that round is charged is the most that it may cost.
      shapes: of the arrays that the server sent first, and must send again; None before
        the first round.
    """

    settings: dict[str, Any]
    num_examples: int
    last_round: int
    spent: int
    seeded: bool
    memory: dict[str, float]
    sums: dict[str, list[Any]]
    before: dict[str, list[Any]] | None = None
    shapes: list[list[int]] | None = None

    def account(self, policy: Policy) -> Account:
        """What the client has spent, and what is claimed of it."""
        found = policy.account.from_json(self.sums)
        if not self.seeded:
            return found
        who = found.participation._replace(nominal="nominal: the noise was seeded")
        return dataclasses.replace(found, participation=who)

    def with_upload(
        self,
        policy: Policy,
        *,
        noise_multiplier: float,
        epsilon: float,
        delta: float,
    ) -> "ClientState":
        """The state whose account has one more upload.

        Raises:
          Refused: ε of all uploads by then, as it is promised, exceeds
            --total_epsilon.
        """
        noise = dataclasses.replace(
            nothing_private(),
            noise_multiplier=jnp.float32(noise_multiplier),
            epsilon=jnp.float32(epsilon),
            delta=jnp.float32(delta),
        )
        noise = jax.tree.map(lambda leaf: np.full(1, leaf), noise)
        account = self.account(policy).record([0], noise)
        promise = policy.promise
        if promise.total_epsilon is not None:
            spent = account.epsilon_spent(promise.total_accounting)
            if not spent <= promise.total_epsilon * _ROUNDING:
                raise Refused(
                    "another upload would exceed this client's promise, total_epsilon "
                    f"= {promise.total_epsilon:g}"
                )
        return dataclasses.replace(self, sums=account.to_json())

    def epsilon_spent(self, policy: Policy) -> dict[str, float]:
        """The ε of all uploads so far by each accounting, at the promise's δ."""
        spent: dict[str, float] = self.account(policy).row(last=False)["epsilon_spent"]
        return spent


def new_state(policy: Policy, num_examples: int) -> ClientState:
    """Of a client that has not uploaded yet.

    Args:
      policy: what it agrees to.
      num_examples: |D|, its training examples; of a private query |P|, 0 where it has
        no records of the private attribute. The number is public from now on. It
        decides the weight of the client and, under `paper`, the noise.

    Raises:
      ValueError: no whole number; fewer than the least that all clients agreed on, or
        more than the policy's `max_num_examples`, and 1,000 times the least.
    """
    if num_examples != int(num_examples):
        raise ValueError(f"num_examples must be a whole number, got {num_examples}")
    least = float(policy.config.min_num_examples)
    if num_examples < least and not (policy.is_query and num_examples == 0):
        raise ValueError(
            f"num_examples must be at least min_num_examples = {least:g}, which the "
            f"clients agreed on, got {num_examples}"
        )
    most = max(policy.config.max_num_examples, int(_MOST_TIMES * least))
    if num_examples > most:
        raise ValueError(
            f"num_examples must be at most {most}, got {num_examples}: with too large "
            "a number the noise is too small; make_policy takes max_num_examples"
        )
    memory = policy.mechanism.init(1).of(0).clients
    return ClientState(
        settings=policy.settings(),
        num_examples=int(num_examples),
        last_round=0,
        spent=0,
        seeded=False,
        memory={name: float(value) for name, value in memory.items()},
        sums=policy.account.to_json(),
    )


def to_bytes(state: ClientState) -> bytes:
    """JSON with a checksum of its content."""
    content = dataclasses.asdict(state)
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
        saved, version = whole["state"], whole["format"]
        intact = whole["sha256"] == _sum(json.dumps(saved, sort_keys=True))
    except (ValueError, KeyError, TypeError, RecursionError):
        intact = False
    if not intact:
        raise Refused(
            f"the client's state file {file} is damaged: nothing is uploaded before an "
            "intact copy of it is back; a new one would forget what was spent"
        )
    if version != _FORMAT:
        raise Refused(
            f"the client's state file {file} is of format {version}, and this "
            f"version reads {_FORMAT}"
        )
    settings = policy.settings()
    old = saved["settings"] = of_today(saved["settings"])
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
    return ClientState(**saved)


class StateFile:
    """The file of one client's state, which nobody else may read.

    Args:
      path: beside it lie PATH.lock and, while it is written, PATH.tmp. A link is
        followed once, now.
      policy: what the client agreed to.
    """

    def __init__(self, path: str | os.PathLike[str], policy: Policy) -> None:
        self.path = pathlib.Path(os.path.realpath(path))
        self.policy = policy
        self._lock = self.path.with_name(self.path.name + ".lock")

    def begin(self, num_examples: int) -> None:
        """Writes a new state, once in a client's life.

        Args:
          num_examples: as in `new_state`.

        Raises:
          FileExistsError: a state or its lock is there; the lock outlives a lost state.
          ValueError: as `new_state`.
        """
        state = new_state(self.policy, num_examples)
        for file in (self.path, self._lock):
            if os.path.lexists(file):
                raise FileExistsError(
                    f"{file} exists: this client has begun already, and a new state "
                    "would forget what was spent"
                )
        make_folder(self.path.parent)
        os.close(os.open(self._lock, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        self.write(state)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes of the same client waiting until the block ends.

        Raises:
          Refused: there is no lock file, so another process may work unnoticed.
        """
        try:
            lock = os.open(self._lock, os.O_WRONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise self._missing(self._lock) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._is_there(lock):
                raise self._missing(self._lock)
            yield
        finally:
            os.close(lock)

    def read(self) -> ClientState:
        """What was written last.

        Raises:
          Refused: there is no file; or as `from_bytes`.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            raise self._missing(self.path) from None
        return from_bytes(content, self.policy, self.path.name)

    def write(self, state: ClientState) -> None:
        """Returns when the state is on the disk, whole.

        Raises:
          OSError: it cannot be written, so nothing may be uploaded.
        """
        try:
            replace_file(self.path, to_bytes(state), mode=0o600)
        except WriteError as error:
            raise OSError(
                f"the client's state file {self.path} cannot be written "
                f"({error.reason}): nothing is uploaded, and what it says is as it was"
            ) from error

    def _is_there(self, lock: int) -> bool:
        """Whether the lock that was waited for is the one that others would find."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(lock), os.lstat(self._lock))
        return False

    def _missing(self, file: pathlib.Path) -> Refused:
        """Why nothing may leave without one of the two files."""
        if not self.path.exists() and not self._lock.exists():
            return Refused(
                f"this client has no state file {self.path.name}: it is begun once, by "
                "StateFile.begin, and never to replace one that was lost"
            )
        return Refused(
            f"the client's file {file.name} is missing beside its other one: nothing "
            "is uploaded before an intact state is back, and, when no other process "
            "of this client runs, an empty lock file"
        )


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
