"""Auditing an ε: how well can an adversary tell two neighbouring worlds apart?

In one game, a client holds the data of world "in" or of world "out", which are
neighbours under the relation that is audited. The adversary knows both worlds, all
settings and all other clients. It sees what is released and scores it by the logarithm
of the likelihood ratio, the best score there is (Neyman and Pearson). An (ε, δ)
guarantee limits how often any test of the scores can be right. How often a test was
right in many games therefore bounds ε from below, at a stated confidence;
`epsilon_bounds` computes such bounds.

The games run the code that a federation runs: `cohort.sample_cohort`,
`client_work.released_ratio`, `client_work.add_noise` and `Mechanism.server`. Games with
local training are in `audit_training`, those of the influence filter in `audit_filter`.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.attacks import audit_releases
from fedsvp_jax.core import prng
from fedsvp_jax.core.prng import Address
from fedsvp_jax.core.structs import Array, MechanismState, NoiseInfo
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig
from fedsvp_jax.round import client_work, cohort, private_query_work

_SIDE_BY_SIDE = 500  # games that run at the same time


@dataclasses.dataclass(frozen=True)
class Game:
    """Two worlds that differ in one client, and what the adversary sees of it.

    Attributes:
      updates: the client's update in the worlds (in, out), along the first axis.
      ratios: its contribution ratio R in the worlds (in, out).
      released: the mechanism's settings, where the adversary sees the released R and
        the noise follows it; None where the noise follows R itself.
      adaptive: the mechanism's settings, where the adversary sees the adaptive clip
        after every round (dp_fedavg).
      others: how the uploads of the other clients, whose updates are zero, enter what
        is scored: 1 each in the sum over a cohort, −1 for an upload that is subtracted.
      num_examples: |D|, the client's number of examples.
      num_rounds: T.
      asked_from: before this round (from 0) a private query is answered by 0.
      max_uploads: after so many uploads the cohort sampler leaves a client out.
      dimension: d, the length of an upload.
    """

    updates: tuple[float, float]
    ratios: tuple[float, float] = (1.0, 1.0)
    released: MechanismConfig | None = None
    adaptive: MechanismConfig | None = None
    others: tuple[float, ...] = ()
    num_examples: int = 1
    num_rounds: int = 1
    asked_from: int = 0
    max_uploads: int | None = None
    dimension: int = 8


class Transcript(NamedTuple):
    """One game, round by round; leaves (T, ...)."""

    score: Array  # log likelihood ratio of all that was seen so far
    uploaded: Array  # bool: whether the client took part in the round
    gaussian: Array  # bool: what was seen is a Gaussian of one scale in both worlds
    info: NoiseInfo  # of the client's upload


class Scores(NamedTuple):
    """The log likelihood ratios after each of T rounds, of n games in each world."""

    inside: np.ndarray  # (T, n)
    outside: np.ndarray  # (T, n)
    uploaded: np.ndarray  # (T,) bool: whether the client took part, the same in all
    gaussian: np.ndarray  # (T,) bool: up to here two shifted Gaussians, in every game
    infos: NoiseInfo  # (2, T): of one game in each of the worlds (in, out)


Player = Callable[[Array], Scores]  # key -> the scores of that key's games


class _Seen(NamedTuple):
    """The release of a round in one of the worlds."""

    upload: Array  # (d,) with noise
    mean: Array  # (d,) the same upload without noise
    state: MechanismState
    info: NoiseInfo
    std: Array  # () of the noise, whether or not the client is asked


def upload(
    mechanism: Mechanism,
    update: Array,
    ratio: Array,
    memory: MechanismState,
    *,
    key: Array,
    client_id: Array | int = 0,
    num_examples: int,
    round_num: Array,
) -> tuple[Array, MechanismState, NoiseInfo]:
    """`client_work.add_noise` of a vector, to a broadcast model of zeros."""
    return client_work.add_noise(
        mechanism,
        update,
        memory,
        num_examples=jnp.int32(num_examples),
        ratio=ratio,
        params=jnp.zeros_like(update),
        at=Address(key, client_id, round_num),
    )


class _Carry(NamedTuple):
    states: MechanismState  # the client's, stacked by world
    other: MechanismState  # of any other client
    uploads: Array  # (1 + others,) int32: uploads so far by client
    score: Array


def _transcript(
    mechanism: Mechanism, game: Game, world: Array, key: Array
) -> Transcript:
    """One game in `world` (0: in, 1: out)."""
    axis = jnp.zeros((game.dimension,), jnp.float32).at[0].set(1.0)
    updates = jnp.asarray(game.updates, jnp.float32)[:, None] * axis[None]
    nothing = jnp.zeros_like(axis)
    num_others = len(game.others)
    factors = jnp.asarray(game.others, jnp.float32)
    first = mechanism.init(1).of(0)

    def step(carry: _Carry, round_num: Array) -> tuple[_Carry, Transcript]:
        round_key = prng.round_key(key, round_num)
        ratios = jnp.asarray(game.ratios, jnp.float32)
        score = jnp.float32(0.0)
        if game.released is not None:
            released = client_work.released_ratio(
                ratios[world], game.released, Address(round_key, jnp.int32(0))
            )
            score += audit_releases.log_ratio(released, ratios, game.released)
            ratios = jnp.broadcast_to(released, (2,))

        def release(update: Array, ratio: Array, state: MechanismState) -> _Seen:
            send = partial(
                upload,
                mechanism,
                ratio=ratio,
                memory=state,
                key=round_key,
                num_examples=game.num_examples,
                round_num=round_num,
            )
            noised, after, info = send(update)
            # The same noise on no update: what is left is the clipped update.
            bare, _, _ = send(nothing)
            mean, std = noised - bare, info.noise_std
            if game.asked_from:
                is_queried = round_num >= game.asked_from
                (noised,), info = private_query_work.only_if(is_queried, [noised], info)
            return _Seen(noised, mean, after, info, std)

        both = jax.vmap(release)(updates, ratios, carry.states)
        actual = jax.tree.map(lambda leaf: leaf[world], both)
        infos = jax.tree.map(lambda leaf: leaf[None], actual.info)
        seen, variance = actual.upload, jnp.square(both.std)
        total = actual.upload
        if num_others:
            rest, _, other_infos = jax.vmap(
                lambda client_id: upload(
                    mechanism,
                    nothing,
                    jnp.float32(1.0),
                    carry.other,
                    key=round_key,
                    client_id=client_id,
                    num_examples=game.num_examples,
                    round_num=round_num,
                )
            )(jnp.arange(1, num_others + 1, dtype=jnp.int32))
            seen = seen + factors @ rest
            total = total + jnp.sum(rest, axis=0)
            variance = variance + jnp.sum(jnp.square(factors * other_infos.noise_std))
            infos = jax.tree.map(
                lambda a, b: jnp.concatenate([a, b]), infos, other_infos
            )
        gaps = jnp.square(seen[None] - both.mean) / variance[:, None]
        logs = 0.5 * jnp.log(variance)[:, None]
        likelihoods = -jnp.sum(0.5 * gaps + logs, axis=1)
        ratio = likelihoods[0] - likelihoods[1]
        if game.asked_from:  # a 0 is the same in both worlds
            ratio = jnp.where(jnp.any(seen != 0), ratio, 0.0)
        score += ratio
        shared = carry.other.shared
        if mechanism.server is not None:
            _, after = mechanism.server(
                total / (1.0 + num_others),
                nothing,
                dataclasses.replace(actual.state, shared=shared),
                key=prng.stream_key(round_key, prng.Stream.SERVER_NOISE),
                round_num=round_num,
                infos=infos,
                valid=jnp.ones((1 + num_others,), bool),
            )
            if game.adaptive is not None:
                score += audit_releases.clip_log_ratio(
                    shared["clip"],
                    after.shared["clip"],
                    game.adaptive,
                    clipped=both.info.clipped,
                    others_clipped=infos.clipped[1:],
                )
            shared = after.shared
        states = dataclasses.replace(
            both.state, shared=jax.tree.map(lambda x: jnp.stack([x, x]), shared)
        )
        members = cohort.sample_cohort(
            prng.stream_key(round_key, prng.Stream.COHORT),
            carry.uploads
            < (game.num_rounds if game.max_uploads is None else game.max_uploads),
            1 + num_others,
        )
        uploaded = members[0] == 0  # ascending, so client 0 is the first
        # Clients are eligible all at the same time: without them nothing happens.
        after_round = _Carry(
            states=states,
            other=dataclasses.replace(carry.other, shared=shared),
            uploads=carry.uploads + 1,
            score=carry.score + score,
        )
        carry = jax.tree.map(
            lambda new, old: jnp.where(uploaded, new, old), after_round, carry
        )
        stds = both.std
        gaussian = (stds[0] == stds[1]) & (game.released is None)
        return carry, Transcript(carry.score, uploaded, gaussian, actual.info)

    start = _Carry(
        states=jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), first),
        other=first,
        uploads=jnp.zeros((1 + num_others,), jnp.int32),
        score=jnp.float32(0.0),
    )
    rounds = jnp.arange(game.num_rounds, dtype=jnp.int32)
    return jax.lax.scan(step, start, rounds)[1]


def make_player(
    transcript: Callable[[Array, Array], Transcript], num_games: int
) -> Player:
    """Plays `num_games` games in each world; every game has a key of its own.

    Args:
      transcript: `(world, key) -> Transcript`, world 0 is "in" and 1 is "out".
      num_games: n.
    """

    def both(key: Array) -> list[Transcript]:
        keys = jax.random.split(key)
        return [transcript(jnp.int32(world), keys[world]) for world in range(2)]

    batch = min(_SIDE_BY_SIDE, num_games)
    run = jax.jit(lambda keys: jax.lax.map(both, keys, batch_size=batch))

    def play(key: Array) -> Scores:
        inside, outside = jax.device_get(run(jax.random.split(key, num_games)))
        return Scores(
            inside.score.T,
            outside.score.T,
            inside.uploaded[0],
            np.logical_and.accumulate(
                np.all(inside.gaussian & outside.gaussian, axis=0)
            ),
            jax.tree.map(
                lambda a, b: np.stack([a[0], b[0]]), inside.info, outside.info
            ),
        )

    return play


def upload_player(mechanism: Mechanism, game: Game, num_games: int) -> Player:
    """Plays a game of uploads.

    Args:
      mechanism: adds its noise to the upload; for noise in the local steps there is
        `audit_training.training_player`.
      game: the worlds.
      num_games: n, in each world.
    """
    return make_player(partial(_transcript, mechanism, game), num_games)
