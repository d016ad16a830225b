"""Audit games of the influence filter: a tester's votes and a contributor's layer.

`audit` defines a game. The filter's pass is the one round of a game.
"""

import jax.numpy as jnp

from fedsvp_jax.attacks.audit import Player, Transcript, make_player
from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array
from fedsvp_jax.influence import lazy
from fedsvp_jax.influence.lazy import Batches
from fedsvp_jax.influence.settings import FilterSettings

_SPREAD = 20.0  # L2 norm of a contributor's only feature: its update exceeds the clip


def vote_player(num_votes: int, flip_probability: float, num_games: int) -> Player:
    """A tester whose test set is replaced, so that every one of its votes changes.

    In world "in" it votes +1 on every contribution, in world "out" −1. The adversary
    sees its reports, each of which is worth ±ln((1 − f/2)/(f/2)).

    Args:
      num_votes: contributions that it votes on.
      flip_probability: f of `lazy.randomized_response`, in (0, 1].
      num_games: n, in each world.
    """
    worth = jnp.log((1 - flip_probability / 2) / (flip_probability / 2))

    def transcript(world: Array, key: Array) -> Transcript:
        vote = jnp.where(world == 0, 1.0, -1.0).astype(jnp.float32)
        reports = lazy.randomized_response(
            jnp.full((num_votes,), vote),
            flip_probability,
            prng.stream_key(key, prng.Stream.VOTE),
        )
        score = worth.astype(jnp.float32) * jnp.sum(reports, keepdims=True)
        yes = jnp.ones((1,), bool)
        return Transcript(score, yes, ~yes)

    return make_player(transcript, num_games)


def contribution_player(settings: FilterSettings, num_games: int) -> Player:
    """A contributor whose whole batch is replaced, so that its layer moves by 2C.

    Its only example has the label 0 in world "in" and 1 in world "out", of two classes.
    From a last layer of zeros that gives opposite steps, each longer than the clip.

    Args:
      settings: of the filter.
      num_games: n, in each world.
    """
    kernel = jnp.zeros((2, 1), jnp.float32)
    features = jnp.full((1, 1, 1), _SPREAD, jnp.float32)

    def transcript(world: Array, key: Array) -> Transcript:
        batch = Batches(features, world[None, None], jnp.ones((1, 1), jnp.float32))
        layers = lazy.contributions(kernel, batch, settings, key=prng.round_key(key, 0))
        clip = settings.influence_clip
        std = jnp.float32(settings.contribution_noise * clip)
        # Class 0 was learned up and class 1 down, or the other way about, each by C/√2:
        # the difference has the variance 2·std² and the means ±√2·C.
        difference = layers[0, 0] - layers[0, 1]
        score = difference * jnp.sqrt(2.0) * clip / jnp.square(std)
        yes = jnp.ones((1,), bool)
        return Transcript(score, yes, yes)

    return make_player(transcript, num_games)
