"""Auditing an ε: how well can an adversary tell two neighbouring worlds apart?

In one game, a client holds the data of world "in" or of world "out", which are
neighbours under the relation that is audited. The adversary knows both worlds, all
settings and all other clients. It sees what the mechanism releases and scores it by the
logarithm of the likelihood ratio, the best score there is (Neyman and Pearson). An
(ε, δ) guarantee limits how often any test of the scores can be right. How often a test
was right in many games therefore bounds ε from below, at a stated confidence;
`epsilon_bounds` computes such bounds.

The games run the code that a federation runs: `client.train`, `client.add_noise` and
`Mechanism.server`.
"""

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.algorithm import client
from fedsvp_jax.algorithm.local_training import TrainingRates, TrainingRecipe
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.structs import Array, Examples, MechanismState, Model, NoiseInfo, Params

_OFFSET = 1e6  # makes the loss linear: the records are far in the wrong class


@dataclasses.dataclass(frozen=True)
class Game:
    """Two worlds that differ in one client, and what the adversary sees of it.

    Attributes:
      updates: the client's update in the worlds (in, out), along the first axis.
      ratios: its contribution ratio R in the worlds (in, out).
      num_examples: |D|, the client's number of examples.
      num_rounds: T, the number of its uploads.
      averaged: K: the adversary sees the mean of K uploads; with 1, the upload itself.
      dimension: d, the length of an upload.
    """

    updates: tuple[float, float]
    ratios: tuple[float, float] = (1.0, 1.0)
    num_examples: int = 1
    num_rounds: int = 1
    averaged: int = 1
    dimension: int = 8


class Scores(NamedTuple):
    """The log likelihood ratios after each of T rounds, of n games in each world."""

    inside: np.ndarray  # (T, n)
    outside: np.ndarray  # (T, n)
    infos: NoiseInfo  # (2, T): of one game in each of the worlds (in, out)


class _Seen(NamedTuple):
    """What one world's round would have released."""

    upload: Array  # (d,) with noise
    mean: Array  # (d,) the same upload without noise
    state: MechanismState
    info: NoiseInfo


def _upload(
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
    """`client.add_noise` of a vector, to a broadcast model of zeros."""
    return client.add_noise(
        mechanism,
        update,
        memory,
        num_examples=jnp.int32(num_examples),
        ratio=ratio,
        round_num=round_num,
        params=jnp.zeros_like(update),
        key=key,
        client_id=client_id,
    )


def _transcript(
    mechanism: Mechanism, game: Game, world: Array, key: Array
) -> tuple[Array, NoiseInfo]:
    """The scores (T,) of one game in `world` (0: in, 1: out), and its noise (T,)."""
    axis = jnp.zeros((game.dimension,), jnp.float32).at[0].set(1.0)
    updates = jnp.asarray(game.updates, jnp.float32)[:, None] * axis[None]
    ratios = jnp.asarray(game.ratios, jnp.float32)
    nothing = jnp.zeros_like(axis)
    others = game.averaged - 1

    def step(
        carry: tuple[MechanismState, MechanismState, Array], round_num: Array
    ) -> tuple[tuple[MechanismState, MechanismState, Array], tuple[Array, NoiseInfo]]:
        own, other, score = carry
        round_key = prng.round_key(key, round_num)

        def release(update: Array, ratio: Array, state: MechanismState) -> _Seen:
            send = partial(
                _upload,
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
            return _Seen(noised, noised - bare, after, info)

        both = jax.vmap(release)(updates, ratios, own)
        actual = jax.tree.map(lambda leaf: leaf[world], both)
        infos = jax.tree.map(lambda leaf: leaf[None], actual.info)
        total, variance = actual.upload, jnp.square(both.info.noise_std)
        if others:
            rest, _, more = jax.vmap(
                lambda client_id: _upload(
                    mechanism,
                    nothing,
                    jnp.float32(1.0),
                    other,
                    key=round_key,
                    client_id=client_id,
                    num_examples=game.num_examples,
                    round_num=round_num,
                )
            )(jnp.arange(1, others + 1, dtype=jnp.int32))
            total = total + jnp.sum(rest, axis=0)
            variance = variance + jnp.sum(jnp.square(more.noise_std))
            infos = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), infos, more)
        gaps = jnp.square(total[None] - both.mean) / variance[:, None]
        logs = 0.5 * jnp.log(variance)[:, None]
        likelihoods = -jnp.sum(0.5 * gaps + logs, axis=1)
        score = score + likelihoods[0] - likelihoods[1]
        own, shared = both.state, other.shared
        if mechanism.server is not None:
            state = dataclasses.replace(actual.state, shared=shared)
            _, state = mechanism.server(
                total / float(game.averaged),
                nothing,
                state,
                key=prng.stream_key(round_key, prng.Stream.SERVER_NOISE),
                round_num=round_num,
                infos=infos,
                valid=jnp.ones((game.averaged,), bool),
            )
            shared = state.shared
        own = dataclasses.replace(
            own, shared=jax.tree.map(lambda x: jnp.stack([x, x]), shared)
        )
        other = dataclasses.replace(other, shared=shared)
        return (own, other, score), (score, actual.info)

    first = mechanism.init(1).of(0)
    start = (
        jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), first),
        first,
        jnp.float32(0.0),
    )
    _, (scores, infos) = jax.lax.scan(
        step, start, jnp.arange(game.num_rounds, dtype=jnp.int32)
    )
    return scores, infos


def play(mechanism: Mechanism, game: Game, num_games: int, *, key: Array) -> Scores:
    """Plays a game `num_games` times in each world; every game has its own key.

    Args:
      mechanism: adds its noise to the upload; for noise in the local steps there is
        `play_training`.
      game: the worlds.
      num_games: n.
      key: draws the noise of all games.
    """

    def both(key: Array) -> tuple[tuple[Array, NoiseInfo], tuple[Array, NoiseInfo]]:
        inside, outside = jax.random.split(key)
        return (
            _transcript(mechanism, game, jnp.int32(0), inside),
            _transcript(mechanism, game, jnp.int32(1), outside),
        )

    keys = jax.random.split(key, num_games)
    run = jax.jit(lambda keys: jax.lax.map(both, keys, batch_size=min(500, num_games)))
    (inside, in_infos), (outside, out_infos) = jax.device_get(run(keys))
    infos = jax.tree.map(lambda a, b: np.stack([a[0], b[0]]), in_infos, out_infos)
    return Scores(inside.T, outside.T, infos)


def pushed_model(dimension: int) -> Model:
    """A model with a linear loss: gradient descent moves the weights w along each x.

    A record x of class 0 has the logits (w·x - 1e6, 0). Their cross-entropy is
    1e6 - w·x to the last bit, so that the gradient is -x.
    """

    def init(key: Array, example: Array) -> tuple[Params, Params]:
        del key, example
        return {"w": jnp.zeros((dimension,), jnp.float32)}, {}

    def apply(
        params: Params, stats: Params, x: Array, *, train: bool, key: Array | None
    ) -> tuple[Array, Params]:
        del train, key
        first = x @ params["w"] - jnp.float32(_OFFSET)
        return jnp.stack([first, jnp.zeros_like(first)], axis=-1), stats

    return Model(init, apply)


def neighbours(num_examples: int, replaced: int, push: float) -> list[Examples]:
    """The data of the worlds (in, out), which differ in `replaced` records.

    In world "in" these records push the first weight of `pushed_model` up, in world
    "out" down. All other records are zero and have no gradient.

    Args:
      num_examples: |D|.
      replaced: number of records that differ.
      push: L2 norm of such a record.
    """
    worlds = []
    for sign in (1.0, -1.0):
        inputs = np.zeros((num_examples, 2), np.float32)
        inputs[:replaced, 0] = sign * push
        nobody = jnp.zeros((num_examples,), jnp.int32)
        worlds.append(Examples(jnp.asarray(inputs), nobody, nobody))
    return worlds


def trained_update(
    recipe: TrainingRecipe, rates: TrainingRates, data: Examples, *, key: Array
) -> Array:
    """() float32: how far local training on `data` moves the first weight in a round.

    Args:
      recipe, rates: of the local training.
      data: the client's examples.
      key: of the round.
    """
    count = data.labels.shape[0]
    model = pushed_model(2)
    params, stats = model.init(key, data.inputs[:1])
    trained, _ = client.train(
        model,
        recipe,
        rates,
        params,
        stats,
        data,
        jnp.arange(count, dtype=jnp.int32),
        jnp.int32(count),
        key=key,
        client_id=0,
        lane_axes=(),
    )
    return trained["w"][0]


def trained_updates(
    recipe: TrainingRecipe,
    rates: TrainingRates,
    num_examples: int,
    replaced: int,
    *,
    key: Array,
) -> tuple[float, float]:
    """`trained_update` in the worlds (in, out), with records longer than the clip."""
    push = 2.0 * recipe.batch_size * float(rates.l2_norm_clip)
    worlds = neighbours(num_examples, replaced, push)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)
    moved = jax.jit(jax.vmap(partial(trained_update, recipe, rates, key=key)))(stacked)
    return float(moved[0]), float(moved[1])


def play_training(
    mechanism: Mechanism,
    recipe: TrainingRecipe,
    rates: TrainingRates,
    worlds: list[Examples],
    num_rounds: int,
    num_games: int,
    *,
    key: Array,
) -> Scores:
    """Plays games as `play` does, with noise in the local steps (`per_example`).

    An upload is the sum of its steps. The score is the first weight of the uploads,
    summed over the rounds. It increases with the likelihood ratio, since the noise has
    the same variance in both worlds.

    Args:
      mechanism: adds its noise in the local steps.
      recipe, rates: of the local training.
      worlds: the data of the worlds (in, out), as `neighbours` makes them.
      num_rounds: T.
      num_games: n.
      key: draws the noise and the batches.

    Raises:
      ValueError: the mechanism adds no noise in the local steps.
    """
    if mechanism.step_noise_std is None:
        raise ValueError("mechanism must add its noise in the local steps")
    first = mechanism.init(1).of(0)

    def transcript(data: Examples, key: Array) -> tuple[Array, NoiseInfo]:
        def step(score: Array, round_num: Array) -> tuple[Array, tuple]:
            round_key = prng.round_key(key, round_num)
            noised_rates = client.with_step_noise(
                rates, mechanism, ratio=jnp.float32(1.0), round_num=round_num
            )
            moved = trained_update(recipe, noised_rates, data, key=round_key)
            noised, _, info = _upload(
                mechanism,
                moved[None],
                jnp.float32(1.0),
                first,
                key=round_key,
                num_examples=data.labels.shape[0],
                round_num=round_num,
            )
            return score + noised[0], (score + noised[0], info)

        _, (scores, infos) = jax.lax.scan(
            step, jnp.float32(0.0), jnp.arange(num_rounds, dtype=jnp.int32)
        )
        return scores, infos

    def both(key: Array) -> list[tuple[Array, NoiseInfo]]:
        keys = jax.random.split(key)
        return [transcript(worlds[i], keys[i]) for i in range(2)]

    keys = jax.random.split(key, num_games)
    run = jax.jit(lambda keys: jax.lax.map(both, keys, batch_size=min(500, num_games)))
    (inside, in_infos), (outside, out_infos) = jax.device_get(run(keys))
    infos = jax.tree.map(lambda a, b: np.stack([a[0], b[0]]), in_infos, out_infos)
    return Scores(inside.T, outside.T, infos)


def one_average(
    mechanism: Mechanism, length: float, num_canaries: int, *, key: Array
) -> tuple[np.ndarray, np.ndarray]:
    """The scores of one round in which every client of the cohort is a canary.

    A coin decides for each client i whether it sends `length` along axis i or nothing.
    The adversary sees only the sum of the uploads; its coordinate i is the score of
    client i. The mechanism's cohort size must be `num_canaries`.

    Returns:
      The scores of the canaries that were in, and of those that were out.
    """
    coin_key, noise_key = jax.random.split(key)
    coins = jax.random.bernoulli(coin_key, 0.5, (num_canaries,))
    memory = mechanism.init(1).of(0)

    def add(canary: Array, total: Array) -> Array:
        sent = jnp.where(coins[canary], jnp.float32(length), jnp.float32(0.0))
        update = jnp.zeros((num_canaries,), jnp.float32).at[canary].set(sent)
        noised, _, _ = _upload(
            mechanism,
            update,
            jnp.float32(1.0),
            memory,
            key=noise_key,
            client_id=canary,
            num_examples=1,
            round_num=jnp.int32(0),
        )
        return total + noised

    start = jnp.zeros((num_canaries,), jnp.float32)
    total = np.asarray(
        jax.jit(lambda: jax.lax.fori_loop(0, num_canaries, add, start))()
    )
    inside = np.asarray(coins)
    return total[inside], total[~inside]
