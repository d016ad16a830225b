"""Lazy influence: contributors move the last layer, testers vote, the centre decides.

    contributors' batches -> clipped, noised last layers -> votes of every tester
        -> randomised response -> sums -> 2-means -> who is rejected

All contributors and testers are one compiled computation. Its cost grows with the
number of contributors times the number of testers, since every tester evaluates every
contribution. The features of the frozen network (`last_layer.freeze`) are computed
once, before it.

Source: lazy influence (arXiv 2205.11518), sec. 3.4, algorithm 1.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, Number, iota
from fedsvp_jax.mechanisms import noise
from fedsvp_jax.mechanisms.release import drawable

from . import last_layer
from .privacy import flip_probability
from .settings import FilterSettings

_CONTRIBUTIONS_PER_PRODUCT = 4  # evaluated in one matrix product


class Batches(NamedTuple):
    """One batch per participant, padded to a common length."""

    x: Array  # (M, n, d) float32 scaled features
    labels: Array  # (M, n) int32
    weights: Array  # (M, n) float32: 1, or 0 for padding


class Verdict(NamedTuple):
    """The scores and the decision of one pass; M participants."""

    scores: Array  # (M,) float32: sums of the reported votes
    threshold: Array  # () float32: halfway between the means of the two clusters
    gap: Array  # () float32: how far these are apart
    required_gap: Array  # () float32: nobody is rejected if the gap is smaller
    rejected: Array  # (M,) bool


def contributions(
    kernel: Array, train: Batches, settings: FilterSettings, *, key: prng.AnyKey
) -> Array:
    """(M, C, d): the last layers that the contributors send.

    Each contributor trains W from W_0 on its batch, clips W − W_0 as one vector to the
    L2 norm C, adds Gaussian noise of the std z·C to every coordinate and sends W_0 plus
    the result.

    Args:
      kernel: (C, d) W_0.
      train: the contributors' batches.
      settings: C is `influence_clip`, z is `contribution_noise`.
      key: of this pass; each contributor's noise has a key of its own, derived from it.
    """

    clip = settings.influence_clip

    def contribute(
        contributor: Array, x: Array, labels: Array, weights: Array
    ) -> Array:
        trained = last_layer.descend(
            kernel,
            x,
            labels,
            weights,
            num_epochs=settings.influence_epochs,
            learning_rate=settings.influence_learning_rate,
        )
        update, _ = noise.clip_into_ball(trained - kernel, clip)
        noise_key = prng.stream_key(key, prng.Stream.INFLUENCE, contributor)
        std = jnp.float32(settings.contribution_noise) * clip
        return kernel + noise.add_gaussian_noise(update, std, key=noise_key)[0]

    return jax.vmap(contribute)(iota(len(train.x)), *train)


def improvements(kernel: Array, contributed: Array, test: Batches) -> Array:
    """(M, T) float32: by how much contribution A lowers the loss of tester B.

        Σ_z [L(z, W_0) − L(z, W_A)], z over the test examples of B

    With p the softmax of W_0's logits and d = (W_A − W_0)x, the term of z = (x, y) is
    d_y − log1p(Σ_c p_c·expm1(d_c)). That is exactly 0 where W_A = W_0, while the
    difference of two computed losses would be a rounding error of either sign. A logit
    may change by at most 88, beyond which expm1 overflows float32.

    Args:
      kernel: (C, d) W_0.
      contributed: (M, C, d) the contributions W_A.
      test: the test examples of T testers.
    """
    num_testers, size, width = test.x.shape
    x = test.x.reshape(-1, width)
    labels = test.labels.reshape(-1)
    chances = jax.nn.softmax(x @ kernel.T, axis=-1)

    def improvement(contribution: Array) -> Array:
        change = x @ (contribution - kernel).T
        of_label = jnp.take_along_axis(change, labels[:, None], axis=1)[:, 0]
        gained = of_label - jnp.log1p(jnp.sum(chances * jnp.expm1(change), axis=1))
        return jnp.sum(gained.reshape(num_testers, size) * test.weights, axis=1)

    return jax.lax.map(improvement, contributed, batch_size=_CONTRIBUTIONS_PER_PRODUCT)


@partial(jax.jit, static_argnames="settings")
def lazy_influence(
    kernel: Array,
    train: Batches,
    test: Batches,
    settings: FilterSettings,
    *,
    contribution_key: prng.AnyKey,
    vote_key: prng.AnyKey,
) -> Verdict:
    """One pass of the filter over M participants, each a contributor and a tester.

    A tester votes +1 where the contribution lowers its loss and −1 otherwise, also on a
    tie. Nobody votes on its own contribution.

    Args:
      kernel: (C, d) W_0, the centre's last layer.
      train: the contributors' batches.
      test: the testers' batches.
      settings: decide the program; a run has one.
      contribution_key: draws the contributions' noise; a new one for each pass.
      vote_key: draws the randomised responses. The same key in all passes repeats the
        answer to a vote that did not change.
    """
    contributed = contributions(kernel, train, settings, key=contribution_key)
    gained = improvements(kernel, contributed, test)
    votes = jnp.where(gained > 0, 1.0, -1.0).astype(jnp.float32)
    assert settings.vote_epsilon is not None
    flip = flip_probability(settings.vote_epsilon)
    reports = randomized_response(
        votes, flip, prng.stream_key(vote_key, prng.Stream.VOTE)
    )
    num = len(votes)
    by_others = 1.0 - jnp.eye(num, dtype=jnp.float32)
    scores = jnp.sum(reports * by_others, axis=1)
    low, high = two_means(scores)
    threshold, gap = (low + high) / 2, high - low
    required = required_gap(num - 1, flip, settings.minimum_gap)
    return Verdict(
        scores=scores,
        threshold=threshold,
        gap=gap,
        required_gap=required,
        rejected=(scores < threshold) & (gap >= required),
    )


def randomized_response(votes: Array, flip_probability: Number, key: Array) -> Array:
    """Reports +1 with probability f/2, −1 with f/2, and the vote itself with 1 − f.

        E[report] = (1 − f)·v, so report/(1 − f) is an unbiased estimate of v

    f/2 is rounded up to a probability that can be drawn (`release.drawable`).

    Each place in `votes` has one draw for the vote +1 and one for −1, and both depend
    on the key alone. The same key therefore gives the same report of the same vote, as
    RAPPOR's memory of permanent answers does, without a table of them. Another key
    gives a new report, which costs ε again.

    Args:
      votes: (...) each −1 or +1.
      flip_probability: f in [0, 1]; 0 reports the votes as they are.
      key: one key for all times that these votes are asked for.

    Returns:
      The reports, in the shape of `votes`.

    Source: lazy influence (arXiv 2205.11518), eq. 4; RAPPOR (Erlingsson et al. 2014).
    """
    half = drawable(jnp.float32(flip_probability) / 2)
    of_value = jax.random.uniform(key, (*votes.shape, 2), jnp.float32)
    draw = jnp.where(votes > 0, of_value[..., 1], of_value[..., 0])
    plus = jnp.ones((), votes.dtype)
    coin = jnp.where(draw < half, plus, -plus)
    return jnp.where(draw < 2 * half, coin, votes)


def two_means(scores: Array) -> tuple[Array, Array]:
    """The means, () float32, of two clusters: the lower and the upper, or equal ones.

    The clusters have the least sum of squared distances to their means. In one
    dimension they are separated by one cut of the sorted scores. Trying all n − 1 cuts
    finds the optimum inside the compiled step, without the random starts of an
    iterative 2-means.

    Cutting n sorted scores after the first k gives the least sum where
    k(n − k)·(mean of the rest − mean of the first k)² is largest.

    Args:
      scores: (n,) float, n >= 2.

    Raises:
      ValueError: fewer than two scores.
    """
    scores = jnp.asarray(scores, jnp.float32)
    count = len(scores)
    if count < 2:
        raise ValueError(f"scores must be at least two numbers, got {count}")
    ordered = jnp.sort(scores)
    start = ordered[0]  # equal scores give exact zeros
    sums = jnp.cumsum(ordered - start)
    below = jnp.arange(1, count, dtype=jnp.float32)
    above = count - below
    low = sums[:-1] / below
    high = (sums[-1] - sums[:-1]) / above
    best = jnp.argmax(below * above * jnp.square(high - low))
    return start + low[best], start + high[best]


def required_gap(num_votes: int, flip_probability: Number, share: Number) -> Array:
    """() float32: nobody is rejected unless the cluster means are this far apart.

        share·2(1 − f)·T + 2·sqrt(2/π)·s, s² = T·(1 − (1 − f)²); 0 for share = 0

    2-means splits any scores, also those of honest contributors only. Where all T true
    votes agree, randomised response alone gives the scores the standard deviation s,
    and 2-means cuts a normal sample into clusters whose means are 2·sqrt(2/π)·s apart.
    Contributors with unanimous opposite votes are 2(1 − f)·T apart in the mean; `share`
    of that distance is required on top. The paper requires no gap (share = 0).

    Args:
      num_votes: T, the votes on each contributor.
      flip_probability: f.
      share: in [0, 1].
    """
    unflipped = 1.0 - jnp.float32(flip_probability)
    share = jnp.float32(share)
    noise = jnp.sqrt(num_votes * (1.0 - jnp.square(unflipped)))
    gap = share * 2.0 * unflipped * num_votes + 2.0 * math.sqrt(2.0 / math.pi) * noise
    return jnp.where(share > 0, gap, 0.0)
