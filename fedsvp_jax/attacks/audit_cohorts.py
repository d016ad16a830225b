"""Audit games of whole runs: cohorts that take turns or are thinned.

`audit` defines a game. Here a federation plays. One client of it is the canary:
its update is longer than the clip in world "in", and zero in world "out".
"""

import dataclasses

import jax
import jax.numpy as jnp

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.attacks.audit import Player, Transcript, make_player, upload
from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, NoiseInfo
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.round import cohort

_DIMENSION = 8


@dataclasses.dataclass(frozen=True)
class Turns:
    """Cohorts that take turns, of which the adversary sees the sums.

    Attributes:
      update: the canary's in world "in", along the first axis.
      num_clients: M.
      cohort_size: K.
      num_rounds: T.
      allowance: keeps the promise.
      present: from the second turn on so many clients of the canary's cohort are
        admitted, the canary among them.
    """

    update: float
    num_clients: int
    cohort_size: int
    num_rounds: int
    allowance: Allowance
    present: int


def turns_player(mechanism: Mechanism, game: Turns, num_games: int) -> Player:
    """Plays the rounds with `cohort.cohort_of_round`; the canary is in the first."""
    root = prng.root_key(0)  # public, and the same in all games
    everybody = jnp.ones((game.num_clients,), bool)

    def cohort_of(spent: Array, round_num: Array | int, admitted: Array) -> Array:
        return cohort.cohort_of_round(
            root,
            game.allowance,
            spent,
            round_num,
            cohort_size=game.cohort_size,
            cohorts="cyclic",
            admitted=admitted,
        )

    nobody_spent = jnp.zeros((game.num_clients,), jnp.int32)
    first = cohort_of(nobody_spent, 0, everybody)
    canary, later_admitted = first[0], everybody.at[first[game.present :]].set(False)
    turns = game.num_clients // game.cohort_size
    memory = mechanism.init(1).of(0)
    axis = jnp.zeros((_DIMENSION,), jnp.float32).at[0].set(1.0)

    def transcript(world: Array, key: Array) -> Transcript:
        def step(
            carry: tuple[Array, Array], round_num: Array
        ) -> tuple[tuple[Array, Array], Transcript]:
            score, spent = carry
            admitted = jnp.where(round_num < turns, everybody, later_admitted)
            clients = cohort_of(spent, round_num, admitted)
            valid = clients >= 0

            def send(client_id: Array, update: Array) -> tuple[Array, NoiseInfo]:
                noised, _, info = upload(
                    mechanism,
                    update,
                    jnp.float32(1.0),
                    memory,
                    key=prng.round_key(key, round_num),
                    client_id=client_id,
                    num_examples=1,
                    round_num=round_num,
                )
                return noised, info

            zeros = jnp.zeros_like(axis)
            bare, infos = jax.vmap(send, (0, None))(clients, zeros)
            canary_upload, info = send(canary, game.update * axis)
            # The same noise on no update: what is left is the clipped update.
            mean = canary_upload - send(canary, zeros)[0]
            total = jnp.where(valid[:, None], bare, 0).sum(0)
            seen = total + jnp.where(world == 0, mean, zeros)
            variance = jnp.sum(jnp.where(valid, jnp.square(infos.noise_std), 0))
            gain = (jnp.square(seen).sum() - jnp.square(seen - mean).sum()) / (
                2 * variance
            )
            uploaded = (clients == canary).any()
            score += jnp.where(uploaded, gain, 0.0)
            cost = jnp.asarray(game.allowance.costs)[round_num]
            spent = spent.at[jnp.where(valid, clients, game.num_clients)].add(
                cost, mode="drop"
            )
            yes = jnp.bool_(True)
            return (score, spent), Transcript(score, uploaded, yes, info)

        rounds = jnp.arange(game.num_rounds, dtype=jnp.int32)
        return jax.lax.scan(step, (jnp.float32(0.0), nobody_spent), rounds)[1]

    return make_player(transcript, num_games)
