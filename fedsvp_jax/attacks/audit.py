"""Auditing an ε: how well can an adversary tell two neighbouring worlds apart?

In one game, a client holds the data of world "in" or of world "out", which are
neighbours under the relation that is audited. The adversary knows both worlds, all
settings and all other clients. It sees what is released and scores it by the logarithm
of the likelihood ratio, the best score there is (Neyman and Pearson). An (ε, δ)
guarantee limits how often any test of the scores can be right. How often a test was
right in many games therefore bounds ε from below, at a stated confidence;
`epsilon_bounds` computes such bounds.

The games run the code that a federation runs: `cohort.cohort_of_round`,
`client_work.released_ratio`, `client_work.add_noise` and `Mechanism.server`. Games with
local training are in `audit_training`. What is no mechanism, the influence filter and
the sum of deployed clients, is audited in tests (`tests/helpers/more_cases.py`).
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, MechanismState, NoiseInfo, iota
from fedsvp_jax.core.tree import cell_of, stack, where
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, correlated_noise
from fedsvp_jax.mechanisms.release import spends_release_budget
from fedsvp_jax.round import client_work, cohort

_SIDE_BY_SIDE = 500  # games that run at the same time
_NO_COST = np.zeros((), np.int32)
_UNLIMITED = Allowance(_NO_COST[None], _NO_COST, _NO_COST)


class AuditGame(NamedTuple):
    """Two worlds that differ in one client, and what the adversary sees of it.

    Attributes:
      updates: the client's update in the worlds (in, out), along the first axis.
      ratios: its contribution ratio R in the worlds (in, out).
      others: the factor of each other client's upload in what is scored: 1 in a sum,
        −1 where the upload is subtracted. Their updates are zero.
      num_examples: |D|, the client's number of examples.
      allowance: the promise that ends a client's uploads.
      admitted: of its cohort, so many clients are admitted from the second turn on,
        the client among them; None for all.
      dimension: d, the length of an upload.
    """

    updates: tuple[float, float]
    ratios: tuple[float, float] = (1.0, 1.0)
    others: tuple[float, ...] = ()
    num_examples: int = 1
    allowance: Allowance = _UNLIMITED
    admitted: int | None = None
    dimension: int = 8


class Transcript(NamedTuple):
    """One game, round by round; leaves (T, ...)."""

    score: Array  # log likelihood ratio of all that was seen so far
    uploaded: Array  # bool: whether the client took part in the round
    gaussian: Array  # bool: what was seen is a Gaussian of one scale in both worlds
    info: NoiseInfo | None = None  # of the client's upload


class Scores(NamedTuple):
    """The log likelihood ratios after each of T rounds, of n games in each world."""

    inside: np.ndarray  # (T, n)
    outside: np.ndarray  # (T, n)
    uploaded: np.ndarray  # (T,) bool: whether the client took part, the same in all
    gaussian: np.ndarray  # (T,) bool: up to here two shifted Gaussians, in every game
    infos: NoiseInfo | None  # (2, T): of one game in each of the worlds (in, out)


Player = Callable[[Array], Scores]  # key -> the scores of that key's games


class _Carry(NamedTuple):
    states: MechanismState  # the client's, stacked by world
    other: MechanismState  # of any other client
    spent: Array  # (M,) int32: cost of the uploads so far


class _Round(NamedTuple):
    """What the adversary sees of a round, and what it expects."""

    gaps: Array  # (2, d) what is seen, less what it is without noise in each world
    variances: Array  # (2,) of the noise in each world
    other_score: Array  # () log likelihood ratio of what is released beside it
    uploaded: Array
    gaussian: Array
    info: NoiseInfo


def _cohorts(
    settings: MechanismConfig, game: AuditGame
) -> tuple[int, Array, Callable[[Array, Array | int], Array]]:
    """M, the client that is audited, and `(spent, round_num) -> (K,) cohort`.

    Drawn cohorts have all clients, and cyclic ones take turns. The seed is public, and
    the same in all games.
    """
    cyclic, size = settings.cohorts == "cyclic", 1 + len(game.others)
    num_clients = settings.num_clients if cyclic else size
    everybody = jnp.ones(num_clients, bool)

    cohort_of = partial(
        cohort.cohort_of_round,
        prng.root_key(0),
        game.allowance,
        cohort_size=size,
        cohorts=settings.cohorts,
    )
    first = cohort_of(jnp.zeros(num_clients, jnp.int32), 0)
    thinned = everybody.at[first[game.admitted or size :]].set(False)

    def of_round(spent: Array, round_num: Array | int) -> Array:
        admitted = jnp.where(round_num < num_clients // size, everybody, thinned)
        return cohort_of(spent, round_num, admitted=admitted)

    return num_clients, first[0], of_round


def release_log_ratio(released: Array, ratios: Array, config: MechanismConfig) -> Array:
    """ln P(released | R in world "in") − ln P(released | R in world "out"), () float32.

    With ε the budget of the release:

        laplace              clip(R + Laplace(1/ε), 0, 1): the density inside (0, 1),
                             the mass of the tail at 0 and at 1
        randomized_response  1 with probability 1/(1 + e^ε) + R·(e^ε − 1)/(e^ε + 1)

    Args:
      released: () what the adversary sees.
      ratios: (2,) R in the worlds (in, out), in [0, 1].
      config: `contribution_release` is one of the two.
    """
    epsilon = jnp.float32(config.release_epsilon)
    if config.contribution_release == "laplace":
        # The tails at 0 and 1 begin at a distance R and 1 − R, as the density does
        # that far away: one formula is right for all three.
        logs = -epsilon * jnp.abs(released - ratios)
    else:
        odds = jnp.exp(epsilon)
        chance = (1.0 + ratios * (odds - 1.0)) / (1.0 + odds)
        logs = jnp.log(jnp.where(released > 0.5, chance, 1.0 - chance))
    return logs[0] - logs[1]


def clip_log_ratio(
    before: Array,
    after: Array,
    config: MechanismConfig,
    *,
    clipped: Array,
    others_clipped: Array,
) -> Array:
    """The log likelihood ratio, (), of an adaptive clip, seen before and after a round.

    The clip S′ = S·exp(−η(b̃ − γ)) reveals the noised count b̃·K of clients that were not
    clipped, a Gaussian of std σ_b around the true count.

    Args:
      before, after: () S and S′.
      config: of dp_fedavg with `adaptive_clip`.
      clipped: (2,) whether the client was clipped in the worlds (in, out).
      others_clipped: (K − 1,) whether the others were.

    Source: Andrew et al. 2021 (arXiv 1905.03871), Algorithm 1.
    """
    settings = config.settings
    share = (
        settings.clip_quantile - jnp.log(after / before) / settings.clip_learning_rate
    )
    count = share * (1.0 + len(others_clipped))
    expected = 1.0 - clipped + jnp.sum(1.0 - others_clipped)
    logs = -0.5 * jnp.square((count - expected) / settings.count_noise_std)
    return logs[0] - logs[1]


def transcript_of_uploads(
    mechanism: Mechanism,
    settings: MechanismConfig,
    game: AuditGame,
    world: Array,
    key: Array,
) -> Transcript:
    """One game of uploads, for `make_player`.

    Args:
      mechanism: adds its noise to the upload; for noise in the local steps there is
        `audit_training.training_player`.
      settings: of the mechanism. The adversary sees the R that is released by
        `contribution_release`, and the adaptive clip of dp_fedavg.
      game: the worlds.
      world: 0: in, 1: out.
      key: of the game.
    """
    axis = jnp.zeros(game.dimension, jnp.float32).at[0].set(1.0)
    updates = jnp.asarray(game.updates, jnp.float32)[:, None] * axis[None]
    nothing = jnp.zeros_like(axis)
    factors = jnp.asarray((1.0, *game.others), jnp.float32)
    num_clients, canary, cohort_of = _cohorts(settings, game)
    is_released = spends_release_budget(settings)
    own_settings = settings.settings
    start = mechanism.init(num_clients).of(canary)
    send = partial(
        client_work.add_noise,
        mechanism,
        num_examples=jnp.int32(game.num_examples),
        params=nothing,
    )

    def step(carry: _Carry, round_num: Array) -> tuple[_Carry, _Round]:
        round_key = prng.round_key(key, round_num)
        at = partial(prng.Address, round_key, round_num=round_num)
        clients = cohort_of(carry.spent, round_num)
        valid = clients >= 0
        is_canary = clients == canary
        uploaded = jnp.any(is_canary)
        other_score = jnp.float32(0.0)
        ratios = jnp.asarray(game.ratios, jnp.float32)
        if is_released:
            released = client_work.released_ratio(ratios[world], settings, at(canary))
            other_score += release_log_ratio(released, ratios, settings)
            ratios = jnp.broadcast_to(released, (2,))

        def release(
            update: Array, ratio: Array, state: MechanismState
        ) -> tuple[Array, Array, Array, MechanismState, NoiseInfo]:
            """The upload, the same without noise, its std, and what remains of it."""
            own_send = partial(send, memory=state, ratio=ratio, at=at(canary))
            noised, after, info = own_send(update)
            # The same noise on no update: what is left is the clipped update.
            mean, std = noised - own_send(nothing)[0], info.noise_std
            if settings.private_from:
                is_queried = round_num >= settings.private_from
                (noised,), info = client_work.only_if(is_queried, [noised], info)
            return noised, mean, std, after, info

        both = jax.vmap(release)(updates, ratios, carry.states)
        noised, _, _, state, info = cell_of(both, world)
        _, means, stds, states, worlds_info = both

        silent = partial(send, nothing, carry.other, ratio=jnp.float32(1.0))
        bare, _, infos = jax.vmap(lambda client_id: silent(at=at(client_id)))(clients)
        weights = jnp.where(valid & ~is_canary, factors, 0.0)
        seen = jnp.where(uploaded, noised, nothing) + weights @ bare
        variances = jnp.where(uploaded, jnp.square(stds), 0.0)
        variances += jnp.sum(jnp.square(weights * infos.noise_std))
        other = carry.other
        if mechanism.server is not None:
            average, after = mechanism.server(
                seen / len(factors),
                nothing,
                dataclasses.replace(state, shared=other.shared),
                key=prng.stream_key(round_key, prng.Stream.SERVER_NOISE),
                round_num=round_num,
                infos=where(is_canary, info, infos),
                valid=valid,
            )
            seen = average * len(factors)
            if getattr(own_settings, "adaptive_clip", False):
                other_score += clip_log_ratio(
                    other.shared["clip"],
                    after.shared["clip"],
                    settings,
                    clipped=worlds_info.clipped,
                    others_clipped=infos.clipped[1:],
                )
            other = dataclasses.replace(other, shared=after.shared)
        states = where(uploaded, states, carry.states)
        shared = stack([other.shared, other.shared])
        cost = jnp.asarray(game.allowance.costs)[
            jnp.minimum(round_num, len(game.allowance.costs) - 1)
        ]
        places = jnp.where(valid, clients, num_clients)
        carry = _Carry(
            dataclasses.replace(states, shared=shared),
            other,
            carry.spent.at[places].add(cost, mode="drop"),
        )
        gaps = seen[None] - jnp.where(uploaded, means, 0.0)
        # A 0, or that nobody uploads, is the same in both worlds.
        nothing_seen = jnp.all(seen == 0)
        return carry, _Round(
            jnp.where(nothing_seen, 0.0, gaps),
            jnp.where(nothing_seen, 1.0, variances),
            jnp.where(uploaded, other_score, 0.0),
            uploaded,
            (stds[0] == stds[1]) & (not is_released),
            info,
        )

    rounds = iota(settings.num_rounds)
    both = stack([start, start])
    spent = jnp.zeros(num_clients, jnp.int32)
    _, seen = jax.lax.scan(step, _Carry(both, start, spent), rounds)
    gaps, variances = seen.gaps, seen.variances
    if (num_bands := getattr(own_settings, "noise_bands", 1)) > 1:
        # C times what a server with correlated noise adds are independent Gaussians.
        bands = jnp.zeros(rounds.shape, jnp.float32)
        bands = bands.at[:num_bands].set(
            correlated_noise.band_coefficients(num_bands)[: len(rounds)]
        )
        lag = rounds[:, None] - rounds[None]
        gaps = jnp.tensordot(jnp.where(lag >= 0, bands[lag], 0.0), gaps, 1)
        std = own_settings.noise_multiplier * settings.l2_norm_clip
        variances = jnp.full_like(variances, std**2)
    logs = jnp.square(gaps) / variances[..., None] + jnp.log(variances)[..., None]
    likelihoods = -0.5 * jnp.sum(logs, axis=-1)
    ratios = likelihoods[:, 0] - likelihoods[:, 1] + seen.other_score
    return Transcript(jnp.cumsum(ratios), seen.uploaded, seen.gaussian, seen.info)


def make_player(
    transcript: Callable[[Array, Array], Transcript], num_games: int
) -> Player:
    """Plays `num_games` games in each world; every game has a key of its own.

    Args:
      transcript: `(world, key) -> Transcript`, world 0 is "in" and 1 is "out".
      num_games: n.
    """

    batch = min(_SIDE_BY_SIDE, num_games)

    @jax.jit
    def both(keys: Array) -> Transcript:
        """Of the keys by game and world; the worlds share one traced game."""

        def world(number: Array) -> Transcript:
            game = partial(transcript, number)
            return jax.lax.map(game, keys[:, number], batch_size=batch)

        return jax.lax.map(world, iota(2))

    def play(key: Array) -> Scores:
        keys = jax.vmap(jax.random.split)(jax.random.split(key, num_games))
        seen = jax.device_get(both(keys))
        first = cell_of(seen, (slice(None), 0))
        inside, outside = np.swapaxes(seen.score, 1, 2)
        return Scores(
            inside,
            outside,
            first.uploaded[0],
            np.logical_and.accumulate(np.all(seen.gaussian, axis=(0, 1))),
            first.info,
        )

    return play
