"""A round of a deployed client, counted on its disk: charge, train, make the upload.

`answer` does all of it. A loop of one's own takes `private_round`, and an engine that
trains between two calls of its own `begin_round` before and `end_round` behind. They
keep what two pure functions say, which are made of the simulator's own mechanism,
clipping, calibration and ledger:

    charge   what a server may ask: the round costs the most that it may, before any
             record is read
    finish   the upload, and what it did cost
"""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import claims
from fedsvp_jax.core.files import Record, plain
from fedsvp_jax.core.prng import Stream
from fedsvp_jax.mechanisms import nothing_private
from fedsvp_jax.mechanisms.clipping import root_sharers
from fedsvp_jax.mechanisms.discrete_gaussian import seeded_words

from .noise import SECRET, Arrays, Randomness, add_secret_noise, released, whole_numbers
from .policy import COST, Policy
from .refusal import Refused
from .site import Site
from .state import SPENT, ClientState

_log = logging.getLogger(__name__)
Answer = tuple[Arrays, Record]  # what leaves, and the client's own record


class Trained(NamedTuple):
    """The result of a client's training, before clip and noise: it must not leave.

    Attributes:
      arrays: of the received arrays' shapes, float32 or float64; of a private query its
        answer, the mean of the private records' clipped gradients; with `per_example`
        that of all records.
      contribution: R, or None where no noise follows it.
      clipped: whether the arrays are such a mean, as `Client` makes it.
    """

    arrays: Arrays
    contribution: float | None = None
    clipped: bool = False


def begin_round(site: Site, received: Arrays, *, round_num: int) -> None:
    """Checks a request and charges its round; then the client may read its records.

    Args:
      site: of the client's log and policy.
      received: the arrays that the server sent, float32; float64 is rounded to that.
      round_num: the round, counted from 1.

    Raises:
      Refused: no upload may leave; the log is as it was. Public facts decide it: the
        policy, the round, the received arrays and the log.
      OSError: the log cannot be written; no upload may leave.
    """
    policy, received = site.policy, _in_float32(received)
    with site.opened() as log:
        state = charge(log.state, received, policy=policy, round_num=round_num)
        facts = {"round": round_num, "randomness": _secrecy(site.randomness)}
        log.write(
            "scores" if round_num > policy.config.num_rounds else "charge",
            state,
            facts | policy.costliest(round_num),
        )


def end_round(
    site: Site, received: Arrays, train: Callable[[], Trained], *, round_num: int
) -> Answer:
    """The upload of a round that was begun; the log says so before it may leave.

    A training that raises, or whose arrays do not fit, becomes an update of 0, with
    noise as ever: to answer otherwise would tell of the data. The client's log says
    what failed.

    Args:
      site, received, round_num: as in `begin_round`. The update is against `received`,
        which no training may have changed.
      train: the training, or the private query.

    Returns:
      `(upload, record)`; the upload's numbers are float32's, in the received arrays'
      types.

    Raises:
      Refused: the round was not begun, or its upload is made already.
      OSError: the log cannot be written; no upload may leave.
    """
    policy = site.policy
    if not site.randomness.hides:
        _log.warning(
            f"round {round_num}: the noise is seeded and HIDES NOTHING: whoever knows "
            "the seed removes it; every ε of this client is nominal"
        )
    base = _in_float32(received)
    if policy.is_query or policy.config.uploads_gradient:
        base = [*map(np.zeros_like, base)]
    with site.opened() as log:
        trained = result_of(
            "the training",
            train,
            base,
            round_num,
            clipped=policy.config.uploads_gradient,
        )
        upload, state, record = finish(
            log.state,
            base,
            trained,
            policy=policy,
            round_num=round_num,
            randomness=site.randomness,
        )
        log.write("upload", state, record)
        if not policy.summed:  # whose upload is whole numbers
            upload = [
                leaf.astype(like.dtype)
                for leaf, like in zip(upload, received, strict=True)
            ]
        return upload, record


def result_of(
    name: str,
    train: Callable[[], Trained],
    base: Arrays,
    round_num: int,
    *,
    clipped: bool = False,
) -> Trained:
    """What a training makes of arrays; those arrays where it fails.

    Where gradients are to be `clipped` one by one, a training that does not say so
    fails.
    """
    try:
        result = train()
        if clipped and not result.clipped:
            raise ValueError(
                "clipping=per_example takes the training of deploy.Client, which clips "
                "each record's gradient"
            )
        arrays, ratio = _in_float32(result.arrays), result.contribution
        check_arrays(f"the result of {name}", arrays, [leaf.shape for leaf in base])
        return Trained(arrays, None if ratio is None else float(ratio))
    except (Exception, SystemExit):
        _log.exception(f"round {round_num}: {name} failed, and changes nothing")
        return Trained(base)


def answer(
    site: Site, received: Arrays, train: Callable[[], Trained], *, round_num: int
) -> Answer:
    """`begin_round`, the training, and `end_round`, whose arguments it takes.

    Until it ends, no other process answers for the site. Of the round after the last,
    that of `policy.score_release`, `train` counts the test rows.
    """
    received = [*map(np.array, received)]  # a training may step in place
    with site.opened():
        begin_round(site, received, round_num=round_num)
        if round_num <= site.policy.config.num_rounds:
            return end_round(site, received, train, round_num=round_num)
        release, randomness = site.policy.score_release, site.randomness
        trained = result_of(
            "the count", train, [release.zeros], round_num, clipped=True
        )
        key = randomness.key(round_num, Stream.SCORES)
        words = randomness.words or seeded_words(*jax.random.key_data(key).tolist())  # type: ignore[arg-type]
        noised = whole_numbers(trained.arrays, release.grid, release.share_std, words)
        promise = site.policy.promise
        return noised[0], {
            "epsilon_spent": {promise.total_accounting: promise.total_epsilon}
        }


@contextlib.contextmanager
def private_round(
    site: Site, received: Arrays, *, round_num: int
) -> Iterator[Callable[..., Arrays]]:
    """A round around the caller's own training, in any library:

        with private_round(site, received, round_num=3) as private:
            upload = private(my_training(received))

    The round is charged where the block begins. `private(arrays, contribution=None)`
    takes the weights that the training made of the received ones, and returns the
    weights that may leave, once: the received ones plus the clipped difference with its
    noise. What the block raises is raised: then nothing leaves, the round counts once,
    the server sees that it failed, and `end_round` may still answer it. Where a record
    may decide that, catch it and hand on what was received, as `answer` does. Arrays of
    another shape, or with NaN, leave as pure noise, and the round counts: a failure
    that records may cause is not for the server to see.

    Args:
      site, received, round_num: as in `answer`.

    Raises:
      Refused, OSError: as `begin_round` and `end_round`.
      ValueError: `attribute_records`, which needs more than the update.
    """
    site.policy.check_takes_updates()
    received = [*map(np.array, received)]  # a training may step in place
    with site.opened():
        begin_round(site, received, round_num=round_num)

        def private(arrays: Arrays, contribution: float | None = None) -> Arrays:
            trained = Trained([*map(np.asarray, arrays)], contribution)
            return end_round(site, received, lambda: trained, round_num=round_num)[0]

        yield private


def charge(
    state: ClientState, received: Arrays, *, policy: Policy, round_num: int
) -> ClientState:
    """The state in which a round has cost the most that it may.

    Only public facts decide whether it may be asked. The state must be on the disk
    before the client reads a record: then it does not matter to what was spent whether
    the training ends. Arguments are those of `begin_round`.

    Raises:
      Refused: the round is over or not planned, the budget is spent, the ledger's ε
        would exceed the promise, or the arrays are not finite float32 arrays of the
        model's shapes.
    """
    if not 1 <= round_num <= policy.last_round:
        raise Refused(
            f"round {round_num} is not one of the {policy.last_round} rounds, from 1, "
            "that this client agreed to"
        )
    if round_num <= state.last_round:
        raise Refused(
            f"round {round_num} is over: this client was charged for round "
            f"{state.last_round}, and answers each round once (by end_round, where the "
            "training failed)"
        )
    shapes = [list(array.shape) for array in received]
    check_arrays("the received model", received, state.shapes or shapes)
    if round_num > policy.config.num_rounds:  # it moves no sum of training rows
        return dataclasses.replace(state, last_round=round_num, before=None)
    spent = state.spent + int(policy.allowance.costs[round_num - 1])
    if spent > int(policy.allowance.budget):
        raise Refused(SPENT)
    return dataclasses.replace(
        state.with_upload(policy, policy.costliest(round_num)),
        last_round=round_num,
        spent=spent,
        before=state.sums,
        shapes=shapes,
    )


def finish(
    state: ClientState,
    base: Arrays,
    trained: Trained,
    *,
    policy: Policy,
    round_num: int,
    randomness: Randomness = SECRET,
) -> tuple[Arrays, ClientState, Record]:
    """The upload of a round that was charged: base + noised clip(trained - base).

    The state that is returned must be on the disk before the upload leaves.

    With clipping `attribute_records` the arrays are the private query's instead:
    `base` zeros, `trained` the mean of the clipped gradients of the private records;
    the update of public training needs no noise. With `per_example` they are those of
    all records.

    Nothing in `trained` makes it fail, since a failure would tell of the data. An
    update that is not finite counts as 0, and an R that is missing or no number as 1.

    Args:
      state: of `charge`.
      base: d_1, ... float32 arrays, as the server sent them.
      trained: arrays of the same shapes, and R where the noise follows it.

    Returns:
      `(upload, state, record)`. Where the policy is `summed`, the upload is the update
      in whole numbers of `record["grid_step"]`. The record is an auditor's: it does not
      tell whether the update was clipped, which no noise hides.

    Raises:
      Refused: the round is not the one that was charged, or its upload is made.
    """
    if state.before is None or state.last_round != round_num:
        raise Refused(f"round {round_num} is over, or this client never began it")
    ratio = np.float32(1)
    if policy.mechanism.needs_contribution:
        ratio = released(trained.contribution, policy.config, randomness, round_num)
    with np.errstate(over="ignore", invalid="ignore"):
        update = [new - old for new, old in zip(trained.arrays, base, strict=True)]
    in_ball = policy.config.clip.in_ball  # such a clip does so itself
    if not in_ball and not all(np.isfinite(leaf).all() for leaf in update):
        update = [*map(np.zeros_like, update)]
    memory, words, grid = state.memory, randomness.words, Record()
    silent = policy.is_query and (
        state.num_examples == 0 or round_num <= policy.config.private_from
    )
    if silent:
        update, info = [*map(np.zeros_like, update)], nothing_private()
    else:
        update, after, info = policy.clip_and_noise(
            update,
            {name: np.float32(value) for name, value in memory.items()},
            key=randomness.key(round_num, Stream.NOISE),
            num_examples=jnp.int32(state.num_examples),
            contribution_ratio=jnp.float32(ratio),
            round_num=jnp.int32(round_num - 1),
            params=base,
        )
        update = jax.device_get(update)
        memory = {name: float(value) for name, value in after.clients.items()}
    info = jax.tree.map(np.float32, info)
    if not silent and not 0 < info.noise_std < np.inf:
        raise Refused("the noise of an upload must be positive and finite")
    if policy.summed:
        assert policy.mechanism.grid is not None
        upload, step = whole_numbers(
            update, policy.mechanism.grid, float(info.noise_std), words
        )
        root = np.float32(root_sharers(policy.config))
        info = dataclasses.replace(  # of all shares but h, which the claim counts
            info,
            noise_multiplier=info.noise_multiplier * root,
            sensitivity=info.sensitivity / root,
        )
        grid = {"grid_step": step}
    else:
        if words is not None and not silent:
            update, grid = add_secret_noise(update, base, info, policy.config, words)
        upload = [
            (old + new).astype(np.float32)
            for old, new in zip(base, update, strict=True)
        ]
    cost = {name: getattr(info, name) for name in COST}
    state = dataclasses.replace(
        state,
        seeded=state.seeded or not randomness.hides,
        memory=memory,
        sums=state.before,
        before=None,
    ).with_upload(policy, cost)
    by_pld = policy.promise.total_accounting == "pld"
    spent = claims.row(state.account(policy), last=by_pld)
    record = {
        "round": round_num,
        **cost,
        "noise_std": info.noise_std,
        "sensitivity": info.sensitivity,
        "num_examples": state.num_examples,
        "released_ratio": ratio,
        **spent,
        "randomness": _secrecy(randomness),
        **grid,
    }
    return upload, state, plain(record)


def check_arrays(name: str, arrays: Arrays, shapes: Sequence[Sequence[int]]) -> None:
    """Raises Refused: not finite float32 arrays of these shapes."""
    if len(arrays) != len(shapes):
        raise Refused(f"{name} must have {len(shapes)} arrays, got {len(arrays)}")
    for place, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        if (array.dtype, array.shape) != (np.float32, tuple(shape)):
            raise Refused(
                f"array {place} of {name} must be float32 of the shape {tuple(shape)}, "
                f"got {array.dtype} of {array.shape}"
            )
        if not np.isfinite(array).all():
            raise Refused(f"array {place} of {name} holds NaN or infinity")


def _secrecy(randomness: Randomness) -> str:
    return "secret" if randomness.hides else "not private: seeded"


def _in_float32(arrays: Arrays) -> Arrays:
    """The arrays, those of float64 rounded: noise is counted in float32."""
    with np.errstate(over="ignore"):  # what becomes infinite is refused
        return [
            leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf
            for leaf in arrays
        ]
