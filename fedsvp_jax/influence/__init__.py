"""Lazy influence: a private filter of corrupted contributors (arXiv 2205.11518)."""

from fedsvp_jax.influence.lazy import lazy_influence

__all__ = ["lazy_influence"]
