"""Lazy influence: a private filter of corrupted contributors (arXiv 2205.11518)."""

from fedsvp_jax.influence.lazy import (
    Batches,
    FilterRates,
    Verdict,
    lazy_influence,
    randomized_response,
)
from fedsvp_jax.influence.privacy import (
    exact_vote_epsilon,
    flip_probability,
)
from fedsvp_jax.influence.threshold import (
    required_gap,
    two_means,
)

__all__ = [
    "Batches",
    "FilterRates",
    "Verdict",
    "exact_vote_epsilon",
    "flip_probability",
    "lazy_influence",
    "randomized_response",
    "required_gap",
    "two_means",
]
