"""One upload of a deployed client: checked, clipped, noised and counted.

`privatize` is a pure function but for its randomness: arrays and state in, upload and
state out. It is made of the simulator's own mechanism, sensitivity, calibration and
ledger. `answer` wraps it in the client's state file.
"""

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import promises
from fedsvp_jax.deploy.noise import add_secret_noise, released_in_secret
from fedsvp_jax.deploy.policy import Policy
from fedsvp_jax.deploy.randomness import SECRET, Randomness, Seeded
from fedsvp_jax.deploy.refusal import Refused
from fedsvp_jax.deploy.state import ClientState, StateFile
from fedsvp_jax.mechanisms import nothing_private, release_contribution
from fedsvp_jax.prng import Stream
from fedsvp_jax.run.folder import plain
from fedsvp_jax.structs import NoiseInfo

_log = logging.getLogger(__name__)
Arrays: TypeAlias = list[np.ndarray]


def check_request(
    policy: Policy,
    state: ClientState,
    received: Sequence[np.ndarray],
    *,
    round_num: int,
    like: Sequence[np.ndarray] | None = None,
) -> None:
    """What a client asks before it trains.

    Args:
      policy: what the client agreed to.
      state: what it has spent.
      received: the arrays that the server sent.
      round_num: the round, counted from 1.
      like: arrays of the model's shapes; None where they are not known.

    Raises:
      Refused: the round is over or not planned, the budget is spent, or the arrays
        are not finite float32 arrays of the model's shapes.
    """
    rounds = policy.config.num_rounds
    if not 1 <= round_num <= rounds:
        raise Refused(
            f"round {round_num} is not one of the {rounds} rounds that this client "
            "agreed to"
        )
    if round_num <= state.last_round:
        raise Refused(
            f"round {round_num} is over: this client has answered round "
            f"{state.last_round}, and answers each round once"
        )
    allowed = policy.allowance
    if state.spent + int(allowed.costs[round_num - 1]) > int(allowed.budget):
        promise = policy.promise.total_epsilon
        limit = (
            f"max_uploads = {policy.config.max_uploads}"
            if promise is None
            else f"total_epsilon = {promise:g}"
        )
        raise Refused(f"another upload would exceed this client's promise, {limit}")
    _check_arrays("the received model", received, like)


def privatize(
    received: Sequence[np.ndarray],
    trained: Sequence[np.ndarray],
    state: ClientState,
    *,
    policy: Policy,
    round_num: int,
    num_examples: int,
    contribution: float | None = None,
    randomness: Randomness = SECRET,
) -> tuple[Arrays, ClientState, dict[str, Any]]:
    """The upload of one round: received + noised clip(trained - received).

    The state that is returned must be on the disk before the upload leaves (`answer`).

    With sensitivity `attribute_records` the arrays are the private query's instead:
    `received` zeros, `trained` the mean of the clipped gradients of the private
    records, `num_examples` their number; the update of public training needs no noise.

    Args:
      received: d_1, ... float32 arrays, as the server sent them.
      trained: of the same shapes, after local training.
      state: before the upload.
      policy: what the client agreed to.
      round_num: counted from 1; each is answered once.
      num_examples: |D|, the client's training examples, which are public.
      contribution: R, where the noise follows it (`Mechanism.needs_contribution`).
      randomness: `SECRET`, or `Seeded` for tests, which hides nothing.

    Returns:
      `(upload, state, record)`. The record stays with the client: it tells whether the
      update was clipped, which no noise hides.

    Raises:
      Refused: as `check_request`, or the arrays do not fit one another, or training
        overflowed and --sensitivity=paper clips no upload. A clip sends such an update
        to 0: a refusal would tell the server of the client's data.
    """
    check_request(policy, state, received, round_num=round_num)
    _check_arrays("the trained model", trained, received, finite=False)
    if policy.mechanism.needs_contribution and contribution is None:
        raise Refused(f"mechanism {policy.name} needs the client's contribution ratio")
    ratio = _released(policy, contribution, randomness, round_num)
    with np.errstate(over="ignore", invalid="ignore"):  # the clip makes it 0
        update = [new - old for new, old in zip(trained, received, strict=True)]
    key = (
        randomness.key(round_num, Stream.NOISE)
        if isinstance(randomness, Seeded)
        else None
    )
    grid: dict[str, Any] = {}
    hides = not policy.is_query or (
        num_examples > 0 and round_num > policy.config.private_from
    )
    if not hides:
        info = _numbers(nothing_private())
        noised, memory = [np.zeros_like(leaf) for leaf in update], state.memory
    else:
        clipped, after, told = jax.device_get(
            policy.clip_and_noise(
                update,
                [np.asarray(leaf) for leaf in received],
                {name: np.float32(value) for name, value in state.memory.items()},
                jnp.int32(num_examples),
                jnp.float32(ratio),
                jnp.int32(round_num - 1),
                key,
            )
        )
        info = _numbers(told)
        noised = [np.asarray(leaf) for leaf in clipped]
        _check_arrays("an update that nothing clips", noised, received)
        memory = {name: float(value) for name, value in after.clients.items()}
        if not isinstance(randomness, Seeded) and info.noise_std > 0:
            noised, grid = add_secret_noise(
                noised, received, info, policy.config, randomness
            )
    state = _counted(policy, state, info, memory, round_num, not randomness.hides)
    upload = [
        (old + new).astype(np.float32)
        for old, new in zip(received, noised, strict=True)
    ]
    record = _record(policy, state, info, round_num, ratio, randomness.hides) | grid
    record["num_examples"] = num_examples
    return upload, state, record


class Trained(NamedTuple):
    """What a client's training hands to `privatize`.

    Attributes:
      base, arrays: `received` and `trained` of `privatize`.
      num_examples: |D|; of a private query |P|.
      contribution: R, or None where no noise follows it.
      free: arrays that leave before the others, un-noised, since no private record
        decides them (public training); [] without a private query.
    """

    base: Sequence[np.ndarray]
    arrays: Sequence[np.ndarray]
    num_examples: int
    contribution: float | None = None
    free: Sequence[np.ndarray] = ()


def answer(
    file: StateFile,
    received: Sequence[np.ndarray],
    train: Callable[[], Trained],
    *,
    round_num: int,
    like: Sequence[np.ndarray] | None = None,
    randomness: Randomness = SECRET,
) -> tuple[Arrays, dict[str, Any]]:
    """Checks, trains, privatizes, and writes the state; then the upload may leave.

    Args:
      file: of the client's state and policy; other processes of the client wait.
      train: called when the request has passed the checks.
      like: as in `check_request`.
      received, round_num, randomness: as in `privatize`.

    Returns:
      `(upload, record)`.

    Raises:
      Refused: no upload may leave; the file is as it was.
      OSError: the file cannot be written; no upload may leave.
    """
    policy = file.policy
    with file.locked():
        state = file.read()
        check_request(policy, state, received, round_num=round_num, like=like)
        made = train()
        _check_arrays("the public part of the upload", made.free, None)
        upload, state, record = privatize(
            made.base,
            made.arrays,
            state,
            policy=policy,
            round_num=round_num,
            num_examples=made.num_examples,
            contribution=made.contribution,
            randomness=randomness,
        )
        file.write(state)
    _log.info("upload: %s", record)
    return [*made.free, *upload], record


def _check_arrays(
    name: str,
    arrays: Sequence[np.ndarray],
    like: Sequence[np.ndarray] | None,
    *,
    finite: bool = True,
) -> None:
    """Raises Refused: not (finite) float32 arrays, or not of the shapes of `like`."""
    if like is not None and len(arrays) != len(like):
        raise Refused(f"{name} must have {len(like)} arrays, got {len(arrays)}")
    for place, array in enumerate(arrays):
        if array.dtype != np.float32:
            raise Refused(f"array {place} of {name} must be float32, got {array.dtype}")
        if like is not None and array.shape != like[place].shape:
            raise Refused(
                f"array {place} of {name} must have the shape {like[place].shape}, got "
                f"{array.shape}"
            )
        if finite and not np.all(np.isfinite(array)):
            raise Refused(f"array {place} of {name} holds NaN or infinity")


def _numbers(info: NoiseInfo) -> NoiseInfo:
    """The same as float32 numbers on the host."""
    numbers: NoiseInfo = jax.tree.map(np.float32, jax.device_get(info))
    return numbers


def _released(
    policy: Policy, contribution: float | None, randomness: Randomness, round_num: int
) -> np.float32:
    """The R that the noise may follow, as `contribution_release` says."""
    if not policy.mechanism.needs_contribution:
        return np.float32(1)
    assert contribution is not None
    if not isinstance(randomness, Seeded):
        return released_in_secret(contribution, policy.config, randomness)
    released = release_contribution(
        jnp.float32(contribution),
        policy.config,
        key=randomness.key(round_num, Stream.CONTRIBUTION_RELEASE),
    )
    return np.float32(released)


def _counted(
    policy: Policy,
    state: ClientState,
    info: NoiseInfo,
    memory: dict[str, float],
    round_num: int,
    seeded: bool,
) -> ClientState:
    """The state after an upload, as the simulator's ledger counts it."""
    ledger = state.read_ledger(policy)
    multiplier = np.where(info.noise_std > 0, info.noise_multiplier, 0)
    ledger.record(
        [0],
        round_num=ledger.rounds + 1,
        noise_multiplier=[info.noise_multiplier],
        noise_std=[multiplier * info.sensitivity],
        epsilon=[info.epsilon],
        delta=[info.delta],
        release_epsilon=policy.release_epsilon,
    )
    return dataclasses.replace(
        state,
        last_round=round_num,
        spent=state.spent + int(policy.allowance.costs[round_num - 1]),
        seeded=state.seeded or seeded,
        memory=memory,
        ledger=ledger.state_dict(),
    )


def _record(
    policy: Policy,
    state: ClientState,
    info: NoiseInfo,
    round_num: int,
    ratio: np.float32,
    hides: bool,
) -> dict[str, Any]:
    """What the client may look up of an upload, and what it has spent so far."""
    ledger = state.read_ledger(policy)
    spent = state.epsilon_spent(policy)
    status = promises.status(ledger, policy.mechanism, spent)
    if status is not None:
        # It adds up what a Gaussian's (ε, δ) would be; the noise here is discrete.
        status["basic"] = "nominal"
    told = {
        field.name: getattr(info, field.name)
        for field in dataclasses.fields(info)
        if field.name != "noise_l2"
    }
    return dict(
        plain(
            {
                "round": round_num,
                **told,
                "released_ratio": ratio,
                "uploads": int(ledger.uploads[0]),
                "epsilon_spent": spent,
                "delta_spent": ledger.delta_spent(),
                "target_delta": policy.promise.target_delta,
                "status": status,
                "randomness": "secret" if hides else "not private: seeded",
            }
        )
    )
