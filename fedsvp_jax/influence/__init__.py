"""Lazy influence: a private filter of corrupted contributors (arXiv 2205.11518)."""

from .lazy import lazy_influence

__all__ = ["lazy_influence"]
