"""Games on the sum that a deployed secure aggregation opens, for the audit.

The adversary is the server together with h colluders. It subtracts what the colluders
sent from the sum, in whole numbers modulo 2^b. That leaves the sum of K − h clients, of
whom one takes part with its update or with an update of 0. Each draws its own share of
the noise, as a deployed client does (`deploy.noise.whole_numbers`), with words of a
seed in the place of the operating system's. Masks cancel in the sum, to the bit
(`tests/deploy/test_flower_sums.py`), and are left out.
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.attacks.audit import AuditGame, Player, Scores
from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, NoiseInfo
from fedsvp_jax.deploy import noise
from fedsvp_jax.deploy.policy import Policy
from fedsvp_jax.mechanisms.discrete_gaussian import Words, seeded_words, wrapped


def sums_player(policy: Policy, game: AuditGame, num_games: int) -> Player:
    """Plays one client in against out.

    Args:
      policy: of all clients; only the sum has enough noise (`Policy.summed`).
      game: `updates` of the one, in every round; `others`, whose shares nobody knows
        either; and `dimension` are read.
      num_games: n, in each world.
    """
    num_rounds, num_honest = policy.config.num_rounds, 1 + len(game.others)
    axis = np.eye(1, game.dimension, dtype=np.float32)[0]
    contributions = [
        [_clipped(policy, np.float32(length) * axis, t) for t in range(num_rounds)]
        for length in game.updates
    ]
    infos: NoiseInfo = jax.tree.map(
        lambda *leaves: np.asarray(leaves).reshape(2, num_rounds),
        *(info for of_world in contributions for _, info in of_world),
    )

    def play(key: Array) -> Scores:
        words_key = prng.stream_key(key, prng.Stream.CANARY, 2)
        words = seeded_words(*jax.random.key_data(words_key).tolist())
        scores = np.zeros((2, num_rounds, num_games))
        for world, t in np.ndindex(2, num_rounds):
            seen, variance = _opened(
                policy, contributions[world][t], num_honest, num_games, words
            )
            inside, outside = (
                np.square(seen - of_world[t][0]).sum(axis=1)
                for of_world in contributions
            )
            scores[world, t] = (outside - inside) / (2 * variance)
        totals = np.cumsum(scores, axis=1)
        always = np.ones(num_rounds, bool)
        return Scores(totals[0], totals[1], always, always, infos)

    return play


def _clipped(
    policy: Policy, update: np.ndarray, round_num: int
) -> tuple[np.ndarray, NoiseInfo]:
    """The client's clipped update before its noise, and its NoiseInfo."""
    clipped, _, info = policy.clip_and_noise(
        [update],
        {},
        key=None,
        num_examples=jnp.int32(policy.config.min_num_examples),
        contribution_ratio=jnp.float32(1),
        round_num=jnp.int32(round_num),
        params=[np.zeros_like(update)],
    )
    return np.asarray(clipped[0]), jax.device_get(info)


def _opened(
    policy: Policy,
    contribution: tuple[np.ndarray, NoiseInfo],
    num_honest: int,
    num_games: int,
    words: Words,
) -> tuple[np.ndarray, float]:
    """(n, d) sums of one round in n games, and the variance that they should have."""
    grid, (clipped, info) = policy.mechanism.grid, contribution
    assert grid is not None
    std, size = float(info.noise_std), len(clipped)

    def with_noise(update: np.ndarray) -> tuple[np.ndarray, float]:
        (units,), step = noise.whole_numbers([update], grid, std, words)
        return units, step

    silent = np.zeros(num_games * size, np.float32)  # of all games at once
    total, step = np.zeros((num_games, size), np.int64), 1.0
    for _ in range(num_honest - 1):
        units, step = with_noise(silent)
        total += units.reshape(num_games, size)
    if clipped.any():
        total += np.stack([with_noise(clipped)[0] for _ in range(num_games)])
    else:
        total += with_noise(silent)[0].reshape(num_games, size)
    return wrapped(total, grid.bits) * step, num_honest * std**2
