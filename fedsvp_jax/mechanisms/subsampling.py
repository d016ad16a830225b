"""Poisson batches inside the client: `--batches=poisson`.

In every local step each training record of a client is in the batch independently, with
probability q = B/|D| (1 where |D| ≤ B). Nobody but the client knows who was in it, so a
step's noised sum of clipped gradients is a subsampled Gaussian even to the server
(docs/appendix, P15).
"""

import math
from typing import NamedTuple

import numpy as np

from .config import MechanismConfig, concrete

_KINDS = 4  # by size, into so many kinds clients are divided at most
_OVERFLOW = 1e-6  # how likely a client may lose a batch in a run


class SampledSteps(NamedTuple):
    """Subsampled Gaussians of one kind.

    Attributes:
      multiplier: z: std of the noise on a step's sum, over C.
      rate: q, the probability of a record to be in a batch.
      number: how many.
    """

    multiplier: float
    rate: float
    number: int


class Subsampling(NamedTuple):
    """The steps that an upload is made of, for clients of every size.

    Attributes:
      kinds: (q, steps per upload): every client spends at most what one of them does.
      most_steps: of an upload; a step has the multiplier z·√most_steps, where z is the
        upload's (`clipping.make_clipping`).
    """

    kinds: tuple[tuple[float, int], ...]
    most_steps: int

    def steps(self, multiplier: float, uploads: int) -> tuple[SampledSteps, ...]:
        """The steps of so many uploads of multiplier z; the worst kind counts."""
        z = multiplier * math.sqrt(self.most_steps)
        return tuple(SampledSteps(z, q, k * uploads) for q, k in self.kinds)


def is_poisson(config: MechanismConfig) -> bool:
    """Whether local steps draw Poisson batches, as `per_example` alone can."""
    in_steps = config.clip.in_steps and not config.uploads_gradient
    return in_steps and config.batches == "poisson"


def most_steps(config: MechanismConfig, num_examples: int | None = None) -> int:
    """`local_training.upload_steps` of a client of that size, or else the largest."""
    per_epoch = max((num_examples or config.max_num_examples) // config.batch_size, 1)
    return config.local_steps or config.local_epochs * per_epoch


def subsampling(config: MechanismConfig) -> Subsampling | None:
    """The subsampling in the config's uploads; None of a traced `min_num_examples`.

    Clients are divided by size into intervals. One kind stands for an interval: q of
    its smallest client and the steps of its largest, so that a kind is exact where all
    clients are of one size. A kind of no larger q and no more steps than another's is
    left out: with q₂ ≤ q₁, (1 − q₂)P + q₂Q is a mixture of P and (1 − q₁)P + q₁Q, so it
    is no further from P by any hockey-stick divergence.

    Raises:
      ValueError: the largest client is smaller than the smallest.
    """
    smallest = concrete(config.min_num_examples)
    if smallest is None:
        return None
    low, high = int(smallest), config.max_num_examples
    if high < low:
        raise ValueError(
            f"max_num_examples must be at least min_num_examples = {low}, got {high}"
        )
    edges = np.unique(np.geomspace(low, high + 1, _KINDS + 1).round().astype(int))
    sizes = zip(edges[:-1].tolist(), (edges[1:] - 1).tolist(), strict=True)
    kinds: list[tuple[float, int]] = []
    for small, large in sizes:  # q falls
        kind = min(1.0, config.batch_size / small), most_steps(config, large)
        if not kinds or kind[1] > kinds[-1][1]:
            kinds.append(kind)
    return Subsampling(tuple(kinds), most_steps(config))


def poisson_places(
    batch_size: int, num_examples: int, num_batches: int, rows_per_person: int = 1
) -> int:
    """M: the least room for a batch such that a client hardly ever draws a larger one.

        num_batches · P[m · Binomial(|D|/m, B/|D|) > M] ≤ 1e-6

    m is 1, or the most rows of one person: those of one person are drawn together.

    A batch that is larger is not trained on, which the claim allows (P15): M is a
    matter of accuracy and of memory. The tail grows with |D| at equal B, so that of the
    largest client decides (Anderson and Samuels 1967).
    """
    from scipy import stats

    rate = min(1.0, batch_size / num_examples)
    persons = -(-num_examples // rows_per_person)
    drawn_persons = int(stats.binom.isf(_OVERFLOW / num_batches, persons, rate))
    return min(rows_per_person * drawn_persons, num_examples)
