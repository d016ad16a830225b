"""Lazy influence: a private filter of corrupted contributors (arXiv 2205.11518)."""

from fedsvp_jax.influence.lazy import Batches, lazy_influence

__all__ = ["Batches", "lazy_influence"]
