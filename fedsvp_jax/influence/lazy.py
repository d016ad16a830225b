"""Lazy influence: contributors move the last layer, testers vote, the centre cuts.

    contributors' batches -> clipped, noised last layers -> votes of every tester
        -> randomised response -> sums -> 2-means -> who is rejected

One compiled computation for all contributors and testers; the work is the product of
the two (every tester evaluates every contribution). Frozen features come from
`last_layer.features`, once for all.

Source: lazy influence (arXiv 2205.11518), sec. 3.4, algorithm 1.
"""

from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.influence import last_layer
from fedsvp_jax.influence.threshold import required_gap, two_means
from fedsvp_jax.mechanisms import noise
from fedsvp_jax.structs import Array

_SIDE_BY_SIDE = 4  # contributions that are evaluated in one product


@flax.struct.dataclass
class FilterRates:
    """What may vary without a new program; every leaf a scalar."""

    local_epochs: Array | int
    learning_rate: Array | float
    clip: Array | float  # C, on the update of the last layer
    noise_multiplier: Array | float  # z: std of the Gaussian over C
    flip_probability: Array | float  # f
    minimum_gap: Array | float  # share of `threshold.required_gap`


class Batches(NamedTuple):
    """One batch a participant, padded to a common length."""

    x: Array  # (M, n, d) float32 scaled features
    labels: Array  # (M, n) int32
    weights: Array  # (M, n) float32: 1, or 0 for padding


@flax.struct.dataclass
class Verdict:
    """What the centre saw and decided; M participants."""

    true_scores: Array  # (M,) float32: sums of the votes before the response
    scores: Array  # (M,) float32: sums of the reports; the centre's
    low: Array  # () float32: the two centres
    high: Array  # ()
    threshold: Array  # (): their mean
    required_gap: Array  # (): least high − low for anybody to be rejected
    rejected: Array  # (M,) bool


def contributions(
    kernel: Array, train: Batches, rates: FilterRates, *, key: Array
) -> Array:
    """(M, C, d): the last layers that the contributors send.

    Each trains W on its batch, clips W − W_0 to C as one vector and adds N(0, z²C²).
    """

    def one(who: Array, x: Array, labels: Array, weights: Array) -> Array:
        trained = last_layer.descend(
            kernel,
            x,
            labels,
            weights,
            num_epochs=rates.local_epochs,
            learning_rate=rates.learning_rate,
        )
        update, _ = noise.clip_by_l2_norm(trained - kernel, rates.clip)
        own = prng.stream_key(key, prng.Stream.INFLUENCE, who)
        std = jnp.asarray(rates.noise_multiplier, jnp.float32) * rates.clip
        return kernel + noise.add_gaussian_noise(update, std, key=own)[0]

    people = jnp.arange(train.x.shape[0], dtype=jnp.int32)
    return jax.vmap(one)(people, *train)


def improvements(kernel: Array, sent: Array, test: Batches) -> Array:
    """(M, T) float32: Σ_z [L(z, W_0) − L(z, W_A)] of contribution A at tester B.

    With p the softmax of W_0's logits and d = (W_A − W_0)x, a term is
    d_y − log1p(Σ_c p_c·expm1(d_c)): exactly 0, a tie, where nothing moved. The
    difference of two losses would be rounding there. Logits may move by up to 88.
    """
    num_testers, size, width = test.x.shape
    x = test.x.reshape(-1, width)
    labels = test.labels.reshape(-1)
    chances = jax.nn.softmax(x @ kernel.T, axis=-1)

    def one(contribution: Array) -> Array:
        moved = x @ (contribution - kernel).T
        own = jnp.take_along_axis(moved, labels[:, None], axis=1)[:, 0]
        gained = own - jnp.log1p(jnp.sum(chances * jnp.expm1(moved), axis=1))
        return jnp.sum(gained.reshape(num_testers, size) * test.weights, axis=1)

    return jax.lax.map(one, sent, batch_size=_SIDE_BY_SIDE)


def decide(
    scores: Array, *, num_votes: int, rates: FilterRates
) -> tuple[Array, Array, Array, Array, Array]:
    """`(low, high, threshold, required gap, rejected)` of scores (M,)."""
    low, high = two_means(scores)
    gap = required_gap(num_votes, rates.flip_probability, rates.minimum_gap)
    threshold = (low + high) / 2
    rejected = (scores < threshold) & (high - low >= gap)
    return low, high, threshold, gap, rejected


@jax.jit
def lazy_influence(
    kernel: Array,
    train: Batches,
    test: Batches,
    rates: FilterRates,
    *,
    contribution_key: Array,
    vote_key: Array,
) -> Verdict:
    """One pass of the filter over M participants, each contributor and tester.

    A tie votes −1. Nobody votes on itself.

    Args:
      kernel: (C, d) W_0, the centre's last layer.
      train: the contributors' batches.
      test: the testers' batches.
      rates: the settings.
      contribution_key: this pass's: its Gaussians are drawn from it.
      vote_key: the memory of the answers: the same in every pass.
    """
    sent = contributions(kernel, train, rates, key=contribution_key)
    gained = improvements(kernel, sent, test)
    votes = jnp.where(gained > 0, 1.0, -1.0).astype(jnp.float32)
    reports = randomized_response(
        votes,
        rates.flip_probability,
        prng.stream_key(vote_key, prng.Stream.VOTE),
    )
    num = votes.shape[0]
    others = 1.0 - jnp.eye(num, dtype=jnp.float32)
    scores = jnp.sum(reports * others, axis=1)
    low, high, threshold, gap, rejected = decide(scores, num_votes=num - 1, rates=rates)
    return Verdict(
        true_scores=jnp.sum(votes * others, axis=1),
        scores=scores,
        low=low,
        high=high,
        threshold=threshold,
        required_gap=gap,
        rejected=rejected,
    )


def randomized_response(
    votes: Array, flip_probability: Array | float, key: Array
) -> Array:
    """+1 w.p. f/2, −1 w.p. f/2, the vote itself w.p. 1 − f; the shape of `votes`.

        E[report] = (1 − f)·v, so report/(1 − f) estimates v without bias

    There is one draw for each place and value of a vote, and it depends on the key
    alone: the same key gives the same answer to the same question, which is RAPPOR's
    memory of permanent answers without a table. Whoever asks again with another key
    asks for a new answer, and pays for it.

    Args:
      votes: (...) each −1 or +1.
      flip_probability: f in [0, 1]; 0 tells the votes as they are.
      key: the memory: one key for all times that these places are asked.

    Raises:
      ValueError: a concrete vote is not −1 or +1, or a concrete f is out of [0, 1].

    Source: lazy influence (arXiv 2205.11518), eq. 4; RAPPOR (Erlingsson et al. 2014).
    """
    concrete = not isinstance(votes, jax.core.Tracer)
    if concrete and not np.isin(np.asarray(votes), (-1, 1)).all():
        raise ValueError("votes must be −1 or +1")
    if isinstance(flip_probability, int | float) and not 0 <= flip_probability <= 1:
        raise ValueError(f"flip_probability must be in [0, 1], got {flip_probability}")
    votes = jnp.asarray(votes)
    flip = jnp.asarray(flip_probability, jnp.float32)
    of_value = jax.random.uniform(key, (*votes.shape, 2), jnp.float32)
    draw = jnp.where(votes > 0, of_value[..., 1], of_value[..., 0])
    one = jnp.ones((), votes.dtype)
    coin = jnp.where(draw < flip / 2, one, -one)
    return jnp.where(draw < flip, coin, votes)
