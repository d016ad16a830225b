"""Lazy influence: a private filter of corrupted contributors (arXiv 2205.11518)."""

from fedsvp_jax.influence.lazy import Batches, FilterRates, lazy_influence

__all__ = ["Batches", "FilterRates", "lazy_influence"]
