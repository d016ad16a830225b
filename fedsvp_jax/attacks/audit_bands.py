"""Audit games of noise that is correlated over the rounds (`correlated_noise`).

The adversary sees every round's sum and knows which cohort has its turn. It undoes the
correlation: C times what the server added are independent Gaussians, to which a client
of world "in" has added C times its updates.
"""

import jax
import jax.numpy as jnp

from fedsvp_jax.attacks.audit import Game, Player, Transcript, make_player, upload
from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, MechanismState, NoiseInfo
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig
from fedsvp_jax.mechanisms.correlated_noise import band_coefficients
from fedsvp_jax.round import cohort


def bands_player(
    mechanism: Mechanism, config: MechanismConfig, game: Game, num_games: int
) -> Player:
    """Plays `game` with a trusted server that adds the cohort's noise.

    The client is one of those whose turn comes first.

    Args:
      mechanism: dp_fedavg with `noise_bands`.
      config: its settings; cohorts are dealt once, in the same order in all games.
      game: `updates`, `num_rounds` and `dimension` are read. Other clients send 0.
      num_games: n, in each world.
    """
    axis = jnp.zeros((game.dimension,), jnp.float32).at[0].set(1.0)
    nothing = jnp.zeros_like(axis)
    weights = jnp.asarray(band_coefficients(config.settings.noise_bands), jnp.float32)
    rounds = jnp.arange(game.num_rounds, dtype=jnp.int32)
    bands = jnp.zeros((game.num_rounds,), jnp.float32).at[: len(weights)].set(weights)
    lag = rounds[:, None] - rounds[None]
    matrix = jnp.where(lag >= 0, bands[lag], 0.0)  # C, lower triangular
    size = config.cohort_size

    def cohort_of(round_num: Array | int) -> Array:
        everybody = jnp.ones((config.num_clients,), bool)
        return cohort.dealt_cohort(jax.random.key(0), round_num, everybody, size)

    owner = cohort_of(0)[0]

    def sums(
        world: Array, key: Array, silent: bool = False
    ) -> tuple[Array, Array, NoiseInfo]:
        """(T, d) what is released, (T,) whether the client took part, its NoiseInfo."""

        def step(
            memory: MechanismState, round_num: Array
        ) -> tuple[MechanismState, tuple[Array, Array, NoiseInfo]]:
            takes_part = jnp.any(cohort_of(round_num) == owner)
            round_key = prng.round_key(key, round_num)
            uploaded, _, info = upload(
                mechanism,
                jnp.asarray(game.updates, jnp.float32)[world] * axis,
                jnp.float32(1.0),
                memory.of(owner),
                key=round_key,
                num_examples=1,
                round_num=round_num,
            )
            mean = jnp.where(takes_part, uploaded, nothing) / size
            assert mechanism.server is not None
            noised, memory = mechanism.server(
                mean,
                nothing,
                memory,
                key=prng.stream_key(round_key, prng.Stream.SERVER_NOISE),
                round_num=round_num,
                infos=info,
                valid=jnp.ones((size,), bool),
            )
            return memory, (mean if silent else noised, takes_part, info)

        return jax.lax.scan(step, mechanism.init(config.num_clients), rounds)[1]

    def transcript(world: Array, key: Array) -> Transcript:
        seen, takes_part, infos = sums(world, key)
        means = [sums(jnp.int32(w), key, silent=True)[0] for w in range(2)]
        std = config.settings.noise_multiplier * config.l2_norm_clip / size
        gaps = [
            jnp.sum(jnp.square(matrix @ (seen - mean)), axis=1) / std**2
            for mean in means
        ]
        score = jnp.cumsum(0.5 * (gaps[1] - gaps[0]))
        return Transcript(score, takes_part, jnp.ones_like(takes_part), infos)

    return make_player(transcript, num_games)
