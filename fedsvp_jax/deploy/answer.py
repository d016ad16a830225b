"""A round of a deployed client, counted on its disk: charge, train, make the upload.

`answer` does all of it. A loop of one's own takes `private_round`, and an engine that
trains between two calls of its own `begin_round` before and `end_round` behind.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsvp_jax.deploy.privatize import Arrays, charge, check_arrays, finish
from fedsvp_jax.deploy.site import Site

_log = logging.getLogger(__name__)


def _in_float32(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays, those of float64 rounded: noise is counted in float32."""
    with np.errstate(over="ignore"):  # what becomes infinite is refused
        return [
            leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf
            for leaf in arrays
        ]


# Of a record, what an auditor may read: not whether the update was clipped.
_LOGGED = (
    "round",
    "noise_multiplier",
    "epsilon",
    "delta",
    "noise_std",
    "sensitivity",
    "released_ratio",
    "epsilon_spent",
    "status",
    "adversary",
    "relation",
    "target_delta",
    "delta_spent",
    "randomness",
)


class Trained(NamedTuple):
    """The result of a client's training, before clip and noise: it must not leave.

    Attributes:
      arrays: of the received arrays' shapes, float32 or float64; of a private query its
        answer, the mean of the private records' clipped gradients.
      contribution: R, or None where no noise follows it.
    """

    arrays: Sequence[np.ndarray]
    contribution: float | None = None


class Public(NamedTuple):
    """The part of a private query's upload that no private record decides.

    It leaves before the others, un-noised. So it is trained apart: a private record on
    which the query fails must not change it.

    Attributes:
      size: how many of the first received arrays it is; the others are then the last
        answer, and the next starts at 0.
      train: public training: these arrays after it.
    """

    size: int
    train: Callable[[], Sequence[np.ndarray]]


def begin_round(
    site: Site,
    received: Sequence[np.ndarray],
    *,
    round_num: int,
) -> None:
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
        log.write("charge", state, {"round": round_num, **policy.costliest(round_num)})


def end_round(
    site: Site,
    received: Sequence[np.ndarray],
    train: Callable[[], Trained],
    *,
    round_num: int,
    public: Public | None = None,
) -> tuple[Arrays, dict[str, Any]]:
    """The upload of a round that was begun; the log says so before it may leave.

    A training that raises, or whose arrays do not fit, becomes an update of 0, with
    noise as ever: to answer otherwise would tell of the data. The client's log says
    what failed.

    Args:
      site, received, round_num: as in `begin_round`. The update is against `received`,
        which no training may have changed.
      train: the training, or the private query.
      public: public training, of a private query.

    Returns:
      `(upload, record)`; the upload's numbers are float32's, in the received arrays'
      types.

    Raises:
      Refused: the round was not begun, or its upload is made already.
      OSError: the log cannot be written; no upload may leave.
      ValueError: `public` without a private query.
    """
    policy = site.policy
    if public is not None and not policy.is_query:
        raise ValueError("public must be None: only a private query has a public part")
    if not site.randomness.hides:
        _log.warning(
            "round %d: the noise is seeded and HIDES NOTHING: whoever knows the seed "
            "removes it; every ε of this client is nominal",
            round_num,
        )
    types = [leaf.dtype for leaf in received]
    received = _in_float32(received)
    size = 0 if public is None else public.size
    free, base = received[:size], received[size:]
    if policy.is_query:
        base = [np.zeros_like(leaf) for leaf in base]
    with site.opened() as log:
        if public is not None:
            public_training = _result(
                "public training", lambda: Trained(public.train()), free, round_num
            )
            free = public_training.arrays
        trained = _result("the training", train, base, round_num)
        upload, state, record = finish(
            base,
            trained.arrays,
            log.state,
            policy=policy,
            round_num=round_num,
            contribution=trained.contribution,
            randomness=site.randomness,
        )
        log.write("upload", state, {name: record[name] for name in _LOGGED})
        _log.info("upload: %s", record)
        if not policy.summed:  # whose upload is whole numbers
            upload = [*free, *upload]
            upload = [leaf.astype(t) for leaf, t in zip(upload, types, strict=True)]
        return upload, record


def _result(
    name: str, train: Callable[[], Trained], base: Arrays, round_num: int
) -> Trained:
    """What a training makes of arrays; those arrays where it fails."""
    try:
        result = train()
        arrays, ratio = _in_float32(result.arrays), result.contribution
        check_arrays(f"the result of {name}", arrays, [leaf.shape for leaf in base])
        return Trained(arrays, None if ratio is None else float(ratio))
    except (Exception, SystemExit):
        _log.exception("round %d: %s failed, and changes nothing", round_num, name)
        return Trained(base)


def answer(
    site: Site,
    received: Sequence[np.ndarray],
    train: Callable[[], Trained],
    *,
    round_num: int,
    public: Public | None = None,
) -> tuple[Arrays, dict[str, Any]]:
    """`begin_round`, the training, and `end_round`, whose arguments it takes.

    Until it ends, no other process answers for the site.
    """
    received = [np.array(leaf) for leaf in received]  # a training may step in place
    with site.opened():
        begin_round(site, received, round_num=round_num)
        return end_round(site, received, train, round_num=round_num, public=public)


@contextlib.contextmanager
def private_round(
    site: Site, received: Sequence[np.ndarray], *, round_num: int
) -> Iterator[Callable[..., Arrays]]:
    """A round around the caller's own training, in any library:

        with private_round(site, received, round_num=3) as private:
            upload = private(my_training(received))

    The round is charged where the block begins. `private(arrays, contribution=None)`
    takes the weights that the training made of the received ones, and returns the
    weights that may leave, once: the received ones plus the clipped difference with its
    noise. What the block raises is raised: then nothing leaves, the round counts, and
    the server sees that it failed. Where a record may decide that, catch it and hand on
    what was received, as `answer` does.

    Args:
      site, received, round_num: as in `answer`.

    Raises:
      Refused, OSError: as `begin_round` and `end_round`.
      ValueError: `attribute_records`, which needs more than the update.
    """
    site.policy.check_takes_updates()
    received = [np.array(leaf) for leaf in received]  # a training may step in place
    with site.opened():
        begin_round(site, received, round_num=round_num)

        def private(
            arrays: Sequence[np.ndarray], contribution: float | None = None
        ) -> Arrays:
            trained = Trained([np.asarray(leaf) for leaf in arrays], contribution)
            return end_round(site, received, lambda: trained, round_num=round_num)[0]

        yield private
