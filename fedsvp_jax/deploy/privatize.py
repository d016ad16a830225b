"""One upload of a deployed client: checked, charged, clipped and noised.

These are pure functions but for the randomness: arrays and state in, upload and state
out. They are made of the simulator's own mechanism, sensitivity, calibration and
ledger. `answer` wraps them in the client's state file.

    charge   what a server may ask: the round costs the most that it may, before any
             record is read
    finish   the upload, and what it did cost
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.files import plain
from fedsvp_jax.core.prng import Stream
from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.deploy.noise import (
    SECRET,
    Randomness,
    add_secret_noise,
    released,
    whole_numbers,
)
from fedsvp_jax.deploy.policy import COST, Policy
from fedsvp_jax.deploy.refusal import Refused
from fedsvp_jax.deploy.state import ClientState
from fedsvp_jax.mechanisms import nothing_private
from fedsvp_jax.mechanisms.clipping import root_sharers

Arrays: TypeAlias = list[np.ndarray]


def charge(
    state: ClientState,
    received: Sequence[np.ndarray],
    *,
    policy: Policy,
    round_num: int,
    like: Sequence[np.ndarray] | None = None,
) -> ClientState:
    """The state in which a round has cost the most that it may.

    Only public facts decide whether it may be asked. The state must be on the disk
    before the client reads a record: then it does not matter to what was spent whether
    the training ends. Arguments are those of `answer.begin_round`.

    Raises:
      Refused: the round is over or not planned, the budget is spent, the ledger's ε
        would exceed the promise, or the arrays are not finite float32 arrays of the
        model's shapes.
    """
    rounds = policy.config.num_rounds
    if not 1 <= round_num <= rounds:
        raise Refused(
            f"round {round_num} is not one of the {rounds} rounds, from 1, that this "
            "client agreed to"
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
    if like is None and state.shapes is not None:
        like = [np.broadcast_to(np.float32(0), shape) for shape in state.shapes]
    check_arrays("the received model", received, like)
    return dataclasses.replace(
        state.with_upload(policy, policy.costliest(round_num)),
        last_round=round_num,
        spent=state.spent + int(policy.allowance.costs[round_num - 1]),
        before=state.sums,
        shapes=[list(array.shape) for array in received],
    )


def finish(
    base: Sequence[np.ndarray],
    trained: Sequence[np.ndarray],
    state: ClientState,
    *,
    policy: Policy,
    round_num: int,
    contribution: float | None = None,
    randomness: Randomness = SECRET,
) -> tuple[Arrays, ClientState, dict[str, Any]]:
    """The upload of a round that was charged: base + noised clip(trained - base).

    The state that is returned must be on the disk before the upload leaves.

    With clipping `attribute_records` the arrays are the private query's instead:
    `base` zeros, `trained` the mean of the clipped gradients of the private records;
    the update of public training needs no noise.

    Nothing in `trained` or `contribution` makes it fail, since a failure would tell of
    the data. An update that is not finite is sent to 0, and an R that is none is 1.

    Args:
      base: d_1, ... float32 arrays, as the server sent them.
      trained: of the same shapes, after local training.
      state: of `charge`.
      contribution: R, where the noise follows it (`Mechanism.needs_contribution`).

    Returns:
      `(upload, state, record)`. Where the policy is `summed`, the upload is the update
      in whole numbers of `record["grid_step"]`. The record stays with the client: it
      tells whether the update was clipped, which no noise hides.

    Raises:
      Refused: the round is not the one that was charged, or its upload is made.
    """
    if state.before is None or state.last_round != round_num:
        raise Refused(f"round {round_num} is over, or this client never began it")
    ratio = np.float32(1)
    if policy.mechanism.needs_contribution:
        ratio = released(contribution, policy.config, randomness, round_num)
    with np.errstate(over="ignore", invalid="ignore"):
        update = [new - old for new, old in zip(trained, base, strict=True)]
    finite = all(np.all(np.isfinite(leaf)) for leaf in update)
    if not finite and not policy.config.clip.in_ball:  # a clip to a ball does so
        update = [np.zeros_like(leaf) for leaf in update]
    noise, memory, silent = nothing_private(), state.memory, policy.name == "none"
    if policy.is_query and (
        state.num_examples == 0 or round_num <= policy.config.private_from
    ):
        silent, noised = True, [np.zeros_like(leaf) for leaf in update]
    else:
        noised, after, noise = jax.device_get(
            policy.clip_and_noise(
                update,
                [np.asarray(leaf) for leaf in base],
                {name: np.float32(value) for name, value in state.memory.items()},
                jnp.int32(state.num_examples),
                jnp.float32(ratio),
                jnp.int32(round_num - 1),
                randomness.key(round_num, Stream.NOISE),
            )
        )
        memory = {name: float(value) for name, value in after.clients.items()}
    info: NoiseInfo = jax.tree.map(np.float32, jax.device_get(noise))
    words, grid, numbers = randomness.words, dict[str, Any](), Arrays()
    if not silent and not 0 < info.noise_std < np.inf:
        raise Refused("the noise of an upload must be positive and finite")
    if policy.summed:
        assert policy.mechanism.grid is not None
        numbers, step = whole_numbers(
            noised, policy.mechanism.grid, float(info.noise_std), words
        )
        info, grid = _with_all_shares(info, policy), {"grid_step": step}
    elif words is not None and not silent:
        noised, grid = add_secret_noise(noised, base, info, policy.config, words)
    state = dataclasses.replace(
        state,
        seeded=state.seeded or not randomness.hides,
        memory=memory,
        sums=state.before,
        before=None,
    ).with_upload(policy, {name: getattr(info, name) for name in COST})
    upload = numbers or [
        (old + new).astype(np.float32) for old, new in zip(base, noised, strict=True)
    ]
    record = _record(policy, state, info, round_num, ratio, randomness.hides) | grid
    return upload, state, record


def privatize(
    received: Sequence[np.ndarray],
    trained: Sequence[np.ndarray],
    state: ClientState,
    *,
    policy: Policy,
    round_num: int,
    contribution: float | None = None,
    randomness: Randomness = SECRET,
) -> tuple[Arrays, ClientState, dict[str, Any]]:
    """`charge` and `finish` in one, for a state that no file holds.

    Raises:
      Refused: as `charge`; or `trained` is of another number, shape or type than
        `received`.
    """
    charged = charge(state, received, policy=policy, round_num=round_num)
    check_arrays("the trained model", trained, received, finite=False)
    return finish(
        received,
        trained,
        charged,
        policy=policy,
        round_num=round_num,
        contribution=contribution,
        randomness=randomness,
    )


def check_arrays(
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


def _with_all_shares(info: NoiseInfo, policy: Policy) -> NoiseInfo:
    """`info` with the noise of all shares but h, which the mechanism's claim counts."""
    root = np.float32(root_sharers(policy.config))
    return dataclasses.replace(
        info,
        noise_multiplier=info.noise_multiplier * root,
        sensitivity=info.sensitivity / root,
    )


def _record(
    policy: Policy,
    state: ClientState,
    info: NoiseInfo,
    round_num: int,
    ratio: np.float32,
    hides: bool,
) -> dict[str, Any]:
    """The client's own record of an upload, and what it has spent so far."""
    account = state.account(policy)
    spent = account.row(last=False)
    if spent["status"] is not None:
        # It adds up what a Gaussian's (ε, δ) would be; the noise here is discrete.
        spent["status"]["basic"] = "nominal"
    fields = dict(vars(info))
    del fields["noise_l2"]
    return dict(
        plain(
            {
                "round": round_num,
                **fields,
                "num_examples": state.num_examples,
                "released_ratio": ratio,
                "uploads": int(account.uploads[0]),
                **spent,
                "randomness": "secret" if hides else "not private: seeded",
            }
        )
    )
